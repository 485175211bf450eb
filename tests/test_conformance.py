"""Every variant on every number of ranks under the oracle; and the oracle under mutation."""

import re
import subprocess
from dataclasses import replace

import pytest

from search.cluster.topology_file import parse_conf
from search.decide.decision import hashed_tree
from search.emit.emission import emit_c, emit_h
from search.toolchain import PROBES, TEMPLATES

from .conftest import ROOT

TREE = """
SwitchName=s0 Nodes=h[0-3] Switches=s1 LinkSpeed=1
SwitchName=s1 Nodes=h[4-9] Switches=s2 LinkSpeed=1
SwitchName=s2 Nodes=h[10-15] LinkSpeed=1
"""
RANKS = [1, 2, 3, 4, 5, 8, *(pytest.param(n, marks=pytest.mark.full) for n in (7, 16))]
MUTANT = ["-std=gnu11", "-O0", "-w"]
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]


def build(tools, folder, text, flags=STRICT):
    """Compile the conformance program around an emitted file."""
    (folder / "subject.c").write_text(text)
    (folder / "alltoall.h").write_text(emit_h(TEMPLATES))
    program = folder / "conformance"
    tools.run(
        [
            tools.mpicc,
            *flags,
            f"-I{folder}",
            f"-I{PROBES}",
            '-DATALL_SOURCE="subject.c"',
            str(ROOT / "tests" / "conformance.c"),
            "-o",
            str(program),
        ],
        "compiling",
    )
    return program


def run(tools, program, ranks, labels, options=(), seconds=900):
    """Passed and failed cases; (0, 1) for a crash or a hang, with what was printed. A busy machine
    is given time: what hangs does so for ever."""
    try:
        done = subprocess.run(
            [tools.mpiexec, *options, "-n", str(ranks), str(program), *labels],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, 1, "it hangs"
    totals = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    if done.returncode > 1 or not totals:
        return 0, 1, done.stdout + done.stderr
    return int(totals[1]), int(totals[2]), done.stdout + done.stderr


MORE = [
    "phased(sync=receiver,segment=5,depth=2)",  # parts so small that every block is cut
    "phased(sync=sender,segment=1)",
    "circular(segment=5)",
    "gather_scatter(gather=chain,scatter=binary,segment=3)",
    "bruck(posts=in_turn,packing=type,radix=3,first=2,hops=mesh)",  # several options at a time
    "bruck",  # numbers left out are the least
]


def labels_for(catalogue, ranks, every=False):
    """Variants, and some labels with more in them; ``every`` with each optional parameter, too."""
    return MORE + [
        variant.label
        for variant in catalogue.variants(ranks, legacy=True)
        if every or variant in (variant.plain, in_mesh(variant.plain))
    ]


def one_of_each(catalogue, ranks):
    """The plain variants of each body with the least numbers, and some labels with more."""
    first = {v.body.label: v.label for v in reversed(catalogue.variants(ranks, legacy=True))}
    return [*first.values(), *MORE]


def in_mesh(variant):
    """The same in a mesh."""
    return replace(variant, values=tuple((n, int(n == "hops") or v) for n, v in variant.values))


@pytest.fixture(scope="module")
def subject(catalogue, generic):
    tree = hashed_tree(parse_conf(TREE, "here"))
    return emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, all_bodies=True)


@pytest.fixture(scope="module")
def program(tools, subject, tmp_path_factory):
    return build(tools, tmp_path_factory.mktemp("conformance"), subject)


@pytest.mark.parametrize("ranks", RANKS)
def test_every_variant(tools, program, catalogue, patient, record_property, ranks):
    of_all = labels_for(catalogue, ranks, every=ranks < 8)
    labels = of_all if ranks < 16 else one_of_each(catalogue, ranks)
    passed, failed, said = run(tools, program, ranks, labels, patient)
    assert failed == 0, said
    assert passed >= ranks * 10 * len(labels)
    record_property("cases", passed // ranks)


@pytest.mark.full
@pytest.mark.parametrize("ranks", [*range(1, 34), 48, 64])
def test_every_variant_everywhere(tools, program, catalogue, patient, record_property, ranks):
    """All labels on few ranks, each body on more, one of each kind on many."""
    if ranks <= 9:
        labels = labels_for(catalogue, ranks, every=True)
    elif ranks <= 16:
        labels = one_of_each(catalogue, ranks)
    else:
        labels = list({v.kind: v.label for v in catalogue.variants(ranks, legacy=True)}.values())
    passed, failed, said = run(tools, program, ranks, labels, patient)
    assert failed == 0, said
    assert passed >= ranks * 10 * len(labels)
    record_property("cases", passed // ranks)


@pytest.mark.parametrize(
    "per_host, leaders",
    [
        pytest.param(2, (1, 2), marks=pytest.mark.full),
        (3, (1,)),
        pytest.param(8, (1, 3), marks=pytest.mark.full),
    ],
)
def test_several_ranks_a_host(tools, program, catalogue, patient, per_host, leaders):
    """Leaders where hosts have as many ranks as each other, and where they have not."""
    options = [*patient, "-genv", "RANKS_PER_HOST", str(per_host)]
    phased = [label for label in labels_for(catalogue, 7) if label.startswith("phased")]
    led = {v.kind: v for v in catalogue.variants(16) if "leaders" in dict(v.values)}
    for ranks in (7, 16):
        labels = phased + [
            replace(variant, values=(*dict(variant.values, leaders=some).items(),)).label
            for variant in led.values()
            for some in leaders
            if variant.body.algorithm.serves(ranks)
        ]
        passed, failed, said = run(tools, program, ranks, labels, options)
        assert failed == 0, said
        assert "ignored" not in said


@pytest.mark.full
def test_every_variant_over_shared_memory(tools, program, catalogue):
    labels = labels_for(catalogue, 4)
    _, failed, said = run(tools, program, 4, labels)
    assert failed == 0, said


def test_sanitizers_find_nothing(tools, subject, catalogue, patient, tmp_path):
    program = build(
        tools,
        tmp_path,
        subject,
        [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"],
    )
    options = "detect_leaks=0:verify_asan_link_order=0"  # MPI's own leaks, and what is preloaded
    done = subprocess.run(
        [
            tools.mpiexec,
            *patient,
            "-genv",
            "ASAN_OPTIONS",
            options,
            "-n",
            "5",
            str(program),
            *one_of_each(catalogue, 5),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed" in done.stdout


FIRST = ["-genv", "CONFORMANCE_FIRST", "1"]
"""A mutant is known by its first wrong case, or the first that never ends."""

MUTANTS = {
    "swaps blocks": ("call->sendbuf + to * call", "call->sendbuf + (to ^ (to < 2)) * call"),
    "addresses by size": ("recvcount * recv.extent", "(MPI_Aint)block_bytes"),
    "uses the wrong extent": (
        ".send_stride = sendcount * send.extent",
        ".send_stride = sendcount * recv.extent",
    ),
    "skips the last step": (
        "for (int step = 1; step < p; step++)",
        "for (int step = 1; step < p - (p > 2); step++)",
    ),
    "goes to the wrong peer": ("(own + hop) % p", "(own + hop + (p > 2)) % p"),
    "forgets its own block": ("ATALL_TRY(atall_copy_own(call));", ""),
    "does not wait": (
        "return PMPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);",
        "return MPI_SUCCESS;",
    ),
    "unpacks stale scratch": ("memcpy(blocks + picked[i] * n, arrived + at++ * n, n);", "at++;"),
    "packs as if plain": ("if (!call->send_plain)", "if (0)"),
    "takes any type for plain": ("*predefined = combiner == MPI_COMBINER_NAMED", "*predefined = 1"),
    "takes pairs with holes for plain": (
        "seen->plain && seen->size == seen->extent;",
        "seen->plain;",
    ),
    "sends in place": (
        "memcpy(bytes, atall_send_block(call, to), call->block_bytes);",
        "memcpy(bytes, atall_send_block(call, to), call->block_bytes);"
        "memset((void *)atall_send_block(call, to), 0, call->block_bytes);",
    ),
    "numbers ranks wrongly": (
        "number[i / ranks * ranks + order[i]] = i % ranks;",
        "number[i / ranks * ranks + order[i]] = order[i];",
    ),
    "forgets a partner": ("(own + core) * n, n);", "own * n, n);"),
    "gathers the wrong rows": ("mine / (held * side) * (held * side)", "mine / held * held"),
    "scatters what it gathered": ("columns + to * row + from * n, rows", "columns, rows"),
    "meets the wrong one": ("(step - own + circle) % circle", "(step + own) % circle"),
    "carries in a mesh": ("digit % side * place", "digit * place"),
    "leaves out the last part": (
        "for (int i = 0; i < cut->parts; i++)",
        "for (int i = 0; i < cut->parts - 1; i++)",
    ),
    "forgets to unpack parts": (
        "cut->parts > 1 && !call->recv_plain; from++",
        "cut->parts > 99; from++",
    ),
    "cuts where there is no scratch for all": (
        "wanted <= state->scratch_bytes);",
        "state->rank > 0);",
    ),
    "talks on the user's communicator": (
        "made = atall_create_comm(user, group, number, comm) && *comm != MPI_COMM_NULL;",
        "made = (*comm = user, 1);",
    ),
    "sends as much in the last part": (
        "i < cut->parts - 1 ? cut->bytes : call->block_bytes - i * cut->bytes",
        "cut->bytes",
    ),
    "releases nobody": ("t < tokens->release[i + 1]; t++", "t < tokens->release[i]; t++"),
    "lets the wrong send go": ("waiting[tokens->allows[index - peers]]--", "waiting[0]--"),
    "slides to the wrong peer": (
        "(own - hop + p) % p), &requests[index]",
        "(own - hop + 1 + p) % p), &requests[index]",
    ),
    "leaves one out between windows": ("next < p; next += width)", "next < p; next += width + 1)"),
    "waits for whom it sends to": (
        "(own + step) % p, (own - step + p) % p",
        "(own + step) % p, (own + step) % p",
    ),
    "ends a branch too early": (
        "found.end = (int)(first + 1 + rest * (i + 1) / count);",
        "found.end = (int)(first + 1 + rest * (i + 1) / count) - (rest > 2);",
    ),
    "rotates the wrong way": ("atall_ahead(call, own, -i)", "atall_ahead(call, own, i)"),
    "forgets the lowest base": (
        "place < p; place *= base, base = radix) {\n        int posted",
        "place < p; place *= radix, base = radix) {\n        int posted",
    ),
    "picks the wrong digit": ("i / place % base == hop / place", "i / place % base == 1"),
    "swaps the wrong half": ("rows + start * row, (end", "rows + from * row, (end"),
    "folds too few": ("while (power <= p / 2)", "while (power < p / 2)"),
    "does not number the ranks": (
        "ranking ? ranking[2 * state->ranks + state->rank] : state->rank",
        "state->rank",
    ),
    "sends stale data in place": (
        "memcpy(state->copy, buffer, state->ranks * block_bytes);",
        "",
    ),
    "packs in place over itself": ("state->copy + to * block_bytes, (int)", "state->copy, (int)"),
    "addresses in place by size": (
        "buffer + to * count * seen.extent",
        "buffer + to * block_bytes",
    ),
}


LED_MUTANTS = {
    "serves the wrong rank": ("leader + i % share * leaders", "leader + i % share"),
    "does not sort by host": ("(i % each * count + i / each) * part, part", "i * part, part"),
    "does not sort by target": ("(i % share * p + i / share) * n, one", "i * n, one"),
    "mixes up the members": ("hosts->member[h * each + place++] = r;", "hosts->member[r] = r;"),
}


@pytest.mark.parametrize("mutant", [*MUTANTS, *LED_MUTANTS])
def test_mutations_apply(subject, mutant):
    before, _ = {**MUTANTS, **LED_MUTANTS}[mutant]
    assert before in subject, "the mutation no longer applies: mend it"


@pytest.mark.oracle
@pytest.mark.parametrize("mutant", LED_MUTANTS)
def test_the_oracle_catches_wrong_leaders(tools, subject, patient, tmp_path, mutant):
    before, after = LED_MUTANTS[mutant]
    program = build(tools, tmp_path, subject.replace(before, after), MUTANT)
    options = [*patient, *FIRST, "-genv", "RANKS_PER_HOST", "4"]
    labels = [f"ring(sync=none,leaders={leaders})" for leaders in (1, 2, 3)]
    _, failed, said = run(tools, program, 16, labels, options)
    assert failed > 0
    assert "hangs" not in said, "neither wrong nor ended by its own alarm"


A_FEW = ["swaps blocks", "forgets its own block", "unpacks stale scratch"]


@pytest.mark.parametrize(
    "mutant", [pytest.param(m, marks=() if m in A_FEW else pytest.mark.oracle) for m in MUTANTS]
)
def test_the_oracle_catches_mutants(tools, subject, catalogue, patient, tmp_path, mutant):
    before, after = MUTANTS[mutant]
    program = build(tools, tmp_path, subject.replace(before, after), MUTANT)
    labels = [
        "ring(sync=none,ranking=switch)",
        *one_of_each(catalogue, 6),
        *labels_for(catalogue, 6),
    ]
    _, failed, said = run(tools, program, 6, labels, [*patient, *FIRST])
    assert failed > 0
    assert "hangs" not in said, "neither wrong nor ended by its own alarm"
