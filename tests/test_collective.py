"""Collectives as values: descriptors, labels, bounds; how a job calls and judges each; and what
broadcasts, which are only measured, are there for."""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from rich.console import Console

from search.analysis import segments
from search.analysis.compare import compare_strategies
from search.catalogue.catalogue import Catalogue, every_catalogue
from search.catalogue.collective import DEFAULT, EVERY_PAIR, read_collective
from search.cli.options import parse_and_run
from search.cli.workplace import GENERIC
from search.cluster.topology import bandwidth_bound
from search.cluster.topology_file import parse_conf
from search.decide.decision_file import read_decision
from search.emit.emission import emit_c, emit_h
from search.errors import UserError
from search.model.magpie import completion, parameters, shape
from search.results.cell import cells_of
from search.results.journal import Journal
from search.results.record import Disturbance, Record, usual_disturbance
from search.results.samples import Interval, Sample
from search.results.workload import Workload
from search.strategy.request import Expectation
from search.toolchain import PROBES, TEMPLATES

from .test_expectation import network
from .test_network import message

HERE = Workload(8, 1024, "broadcast")
SHAPES = ("flat", "chain", "binary", "binomial")


@pytest.fixture(scope="module")
def broadcasts():
    return Catalogue(TEMPLATES / "broadcast")


# ---- descriptors


def test_all_collectives_are_found_and_no_label_is_of_two():
    catalogues = every_catalogue(TEMPLATES)
    assert DEFAULT in {one.collective.name for one in catalogues}
    bodies = [body for one in catalogues for body in one.bodies()]
    assert len({body.label for body in bodies}) == len({body.symbol for body in bodies})
    assert len({body.label for body in bodies}) == len(bodies)
    for one in catalogues:
        assert one.native.label == one.collective.native
        for variant in one.variants(8):
            assert one.variant(variant.label).label == variant.label


@pytest.mark.parametrize(
    "text", ["", 'function = "f"\nluck = 1', 'function = "f"\nacross = "ranks"', "function ="]
)
def test_a_descriptor_is_checked(tmp_path, text):
    (tmp_path / "collective.toml").write_text(text)
    with pytest.raises(UserError, match="collective.toml|formula"):
        read_collective(tmp_path)


def test_what_crosses_a_cable_is_the_bound(broadcasts):
    """Eight hosts on two switches: a message passes each cable once, not once for each pair."""
    tree = parse_conf(
        "SwitchName=a Nodes=n[0-3] LinkSpeed=100\nSwitchName=b Nodes=n[4-7] LinkSpeed=100\n"
        "SwitchName=t Switches=a,b LinkSpeed=100",
        "here",
    )
    on = [{f"n{i}": 1 for i in range(8)}]
    once = bandwidth_bound(tree, on, 10**6, broadcasts.collective.across, share=1.0)
    every = bandwidth_bound(tree, on, 10**6, EVERY_PAIR, share=1.0)
    assert (once, every) == (pytest.approx(0.08), pytest.approx(16 * 0.08))


def test_a_workload_of_another_collective_is_kept_apart(tmp_path):
    journal = Journal(tmp_path / "j", "f")
    for workload in (HERE, replace(HERE, collective=DEFAULT)):
        journal.append(Record(workload, "x", 0, Sample((1.0,))))
    assert [record.workload for record in Journal(journal.path, "f").records] == [
        HERE,
        Workload(8, 1024),
    ]
    assert '"collective": "alltoall"' not in journal.path.read_text()


def test_what_is_said_of_one_collective_rests_on_its_records_alone(catalogue, tmp_path, capsys):
    """A journal may hold several: all-to-alls were timed in peace, broadcasts were not."""
    journal = Journal(tmp_path / "x.jsonl", "f")
    mine = Workload(8, 64)
    for n in range(6):
        for label, seconds in (("native", 2.0), ("ring(sync=none)", 1.0)):
            journal.append(Record(mine, label, n, Sample((seconds,))))
        journal.append(Record(HERE, "broadcast/native", n, Sample((3.0,), spent=3.0)))
    for _ in range(9):
        journal.append(Record(HERE, rounds=(0,), disturbance=Disturbance(0.9, 0.5)))
    journal.append(Record(mine, rounds=(0,), disturbance=Disturbance(0.0, 0.0)))
    parse_and_run(["families", str(journal.path)], tmp_path)
    assert "| ring(sync=none) | native |" in capsys.readouterr().out
    parse_and_run(["compare-strategies", str(journal.path), "--collective=broadcast"], tmp_path)
    said = " ".join(capsys.readouterr().out.split())  # however its lines are broken
    assert "1 variants, 1 blocks, 8 ranks" in said
    assert {record.workload for record in journal.of(DEFAULT)} == {mine}
    assert usual_disturbance(journal.of(DEFAULT)) == Disturbance(0.0, 0.0)


def test_a_journal_without_a_collective_has_nothing_to_compare(tmp_path):
    journal = Journal(tmp_path / "x.jsonl", "f")
    journal.append(Record(Workload(8, 64), "native", 0, Sample((1.0,), spent=1.0)))
    with pytest.raises(UserError, match="no block has times of all variants"):
        parse_and_run(["compare-strategies", str(journal.path), "--collective=broadcast"], tmp_path)


# ---- the measuring job


def ask(tools, templates, folder, requests, ranks=5):
    """What a measuring job made of templates answers; its first answer is who it is."""
    every = {one.collective.name: one for one in every_catalogue(templates)}
    catalogue = every.pop(DEFAULT)
    generic = read_decision(GENERIC, catalogue)
    text = emit_c(generic, catalogue, templates, all_bodies=True, beside=[*every.values()])
    (folder / "all.c").write_text(text)
    (folder / "alltoall.h").write_text(emit_h(templates))
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    strict = replace(tools, cflags=(*tools.cflags, *flags))
    strict.compile_job(folder / "all.c", folder / "measure", ["ATALL_EVERY"])
    done = subprocess.run(
        [tools.mpiexec, "-n", str(ranks), str(folder / "measure")],
        input="".join(f"{line}\n" for line in [*requests, "quit"]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("atall: ")]
    assert done.returncode == 0, done.stderr
    return [json.loads(line[len("atall: ") :]) for line in lines][1:-1]


def verify(catalogue, ranks, blocks):
    return [
        f"verify {variant.label} {block}"
        for block in blocks
        for variant in catalogue.variants(ranks)
        if variant.fits(ranks, block)
    ]


def test_every_rank_gets_what_is_broadcast(tools, broadcasts, tmp_path):
    requests = verify(broadcasts, 5, (1, 7, 1000))
    answers = ask(tools, TEMPLATES, tmp_path, [*requests, "time broadcast/native 1000 1 2 barrier"])
    assert {answer.get("verdict") for answer in answers[:-1]} == {"ok"}
    assert len(requests) == len(answers) - 1 > 3 * len(SHAPES)
    assert min(answers[-1]["seconds"]) > 0


@pytest.mark.parametrize("place", ["child[c]", "parent"])
def test_a_wrong_broadcast_is_found(tools, tmp_path, place):
    """Each segment is sent from, or received at, the place of the first."""
    templates = tmp_path / "templates"
    shutil.copytree(TEMPLATES, templates)
    path = templates / "broadcast" / "segmented.c.j2"
    text, right = path.read_text(), f"call->recvbuf + at, (int)bytes, MPI_BYTE, {place}"
    assert text.count(right) == 1
    path.write_text(text.replace(right, right.replace(" + at", "")))
    (answer,) = ask(
        tools, templates, tmp_path, ["verify broadcast/segmented(shape=flat,segment=8) 24"], ranks=3
    )
    assert "wrong data" in answer["verdict"]


DUMMY = {
    "templates/allgather/collective.toml": 'function = "MPI_Allgather"\nacross = "inside"\n',
    "templates/allgather/native.c.j2": """\
{#
name  = "native"
title = "the MPI library's own MPI_Allgather"
cite  = "the library"
cost  = "(p-1)*(alpha + n*beta)"
#}
/* The library's own. */
static int {{ symbol }}(const struct atall_call *call)
{
    return PMPI_Allgather(call->sendbuf, call->sendcount, call->sendtype, call->recvbuf,
                          call->recvcount, call->recvtype, call->comm);
}
""",
    "templates/allgather/ring.c.j2": """\
{#
name  = "ring"
title = "step i: pass on to rank + 1 what came from rank - 1"
cite  = "Thakur, Rabenseifner and Gropp 4.1"
cost  = "(p-1)*(alpha + n*beta)"
#}
/* Each rank passes on what it got last. */
static int {{ symbol }}(const struct atall_call *call)
{
    const int p = call->ranks, own = call->rank, n = (int)call->block_bytes;
    memcpy(call->recvbuf + own * call->recv_stride, call->sendbuf, call->block_bytes);
    for (int step = 0; step < p - 1; step++)
        ATALL_TRY(PMPI_Sendrecv(call->recvbuf + (own - step + p) % p * call->recv_stride, n,
                                MPI_BYTE, (own + 1) % p, ATALL_TAG_BLOCK,
                                call->recvbuf + (own - step - 1 + p) % p * call->recv_stride, n,
                                MPI_BYTE, (own - 1 + p) % p, ATALL_TAG_BLOCK, call->comm,
                                MPI_STATUS_IGNORE));
    return MPI_SUCCESS;
}
""",
    "probes/collectives/allgather.h": """\
#include "targets.h"

#include "oracle.h"

static size_t allgather_bytes(void)
{
    return (size_t)team.peers * (size_t)request.size;
}

static const char *allgather_judge(struct communicator *on)
{
    const size_t n = (size_t)request.size, p = (size_t)on->state->ranks;
    unsigned char *own = (unsigned char *)malloc(n), *got = (unsigned char *)calloc(p, n), *right;
    int bad = 0;
    require(own && got && (right = (unsigned char *)malloc(n)), "no memory");
    oracle_stream(own, n, request.number, on->state->rank, 0);
    bad = call_variant(on, (char *)own, (char *)got) != MPI_SUCCESS;
    for (size_t from = 0; from < p; from++) {
        oracle_stream(right, n, request.number, (int)from, 0);
        bad |= memcmp(got + from * n, right, n) != 0;
    }
    free(right);
    free(got);
    free(own);
    return bad ? "wrong data" : NULL;
}

static const struct collective allgather = { "allgather/", call_variant, allgather_judge,
                                             allgather_bytes };

__attribute__((constructor)) static void add_allgather(void)
{
    add_collective(&allgather);
}
""",
}


def test_a_collective_is_added_files(tools, tmp_path, monkeypatch):
    """Found, rendered, called, judged and timed: by files that are added, and nothing else."""
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    shutil.copytree(PROBES, tmp_path / "probes")
    for name, text in DUMMY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("search.toolchain.PROBES", tmp_path / "probes")
    catalogue = Catalogue(tmp_path / "templates" / "allgather")
    requests = [*verify(catalogue, 5, (1, 1000)), "time allgather/ring 1000 1 2 barrier"]
    answers = ask(tools, tmp_path / "templates", tmp_path, requests)
    assert [answer.get("verdict") for answer in answers] == ["ok"] * 4 + [None]
    assert min(answers[-1]["seconds"]) > 0


# ---- segments down trees: models and strategies


def times(**seconds):
    """Network of two sizes between which everything is on a line."""
    found = []
    for size, factor in ((0, 1.0), (1000, 2.0)):
        scaled = {k: Interval(*[factor * v] * 3) for k, v in seconds.items()}
        found.append(replace(message(size, "immediate"), **scaled))
    return replace(network(), messages=tuple(found))


def test_parameters_lie_on_the_line_between_sizes():
    known = times(each=1e-5, o_s=2e-6, o_r=3e-6, one_way=5e-5)
    gap, send, receive, latency = parameters(known, 500)
    assert (gap, send, receive) == pytest.approx((1.5e-5, 3e-6, 4.5e-6))
    assert latency == pytest.approx(4e-5)
    assert parameters(known, 1 << 20)[0] > parameters(known, 1000)[0] == pytest.approx(2e-5)


@pytest.mark.parametrize(
    "tree, height, degree", [("flat", 1, 7), ("chain", 7, 1), ("binary", 3, 2), ("binomial", 3, 3)]
)
def test_a_formula_by_hand(tree, height, degree):
    """Eight segments on eight ranks: seven gaps of the busiest node, and the way down."""
    known = times(each=1e-5, o_s=2e-6, o_r=3e-6, one_way=5e-5)
    assert shape(tree, 8) == (height, degree)
    gap, latency = 2e-5, 4e-5
    by_hand = 7 * max(degree * gap, 6e-6 + degree * 4e-6) + height * (latency + degree * gap)
    assert completion(tree, 8, 8000, 1000, known) == pytest.approx(by_hand)


def usable(catalogue):
    """What there is for 1 KiB on 8 ranks."""
    return [v for v in catalogue.variants(8) if v.fits(8, 1024)]


def test_segments_go_down_to_a_double(broadcasts):
    mine = usable(broadcasts)
    assert mine[0] == broadcasts.native and len(mine) == 1 + len(SHAPES) * 8
    assert {dict(v.values)["segment"] for v in mine[1:]} == {8 << i for i in range(8)}


def recorded(catalogue, seconds):
    """Records of all variants of 1 KiB; seconds of a shape and a segment."""
    return [
        Record(
            HERE,
            variant.label,
            n,
            Sample(
                (
                    seconds(
                        dict(variant.body.binding).get("shape"),
                        dict(variant.values).get("segment", 1024),
                    ),
                )
                * 2,
                spent=0.01,
            ),
        )
        for variant in usable(catalogue)
        for n in range(6)
    ]


def test_the_loss_of_a_prediction_is_what_was_measured_there(broadcasts):
    records = recorded(broadcasts, lambda tree, segment: 1e-3 * (1 + abs(segment - 64) / 64))
    cell = cells_of(records, usable(broadcasts))[HERE]
    chain = segments.trees_of(cell)["chain"]
    assert segments.medians(cell, chain)[128] == pytest.approx(2e-3)
    right, wrong = (lambda t, n, v: abs(n - 64), lambda t, n, v: abs(n - 128))
    rows = segments.compare_models(cell, {"right": right, "wrong": wrong})
    assert [row.tree for row in rows] == list(SHAPES)
    for row in rows:
        assert row.measured == row.predicted["right"] == 64 and row.loss["right"] == 1
        assert row.predicted["wrong"] == 128 and row.loss["wrong"] == pytest.approx(2.0)


def test_every_strategy_can_search_broadcasts(broadcasts):
    slow = {"flat": 4.0, "binary": 2.0, "binomial": 3.0}
    records = recorded(
        broadcasts, lambda tree, segment: 1e-3 * slow.get(tree, 1) * (1 + abs(segment - 64) / 64)
    )
    results = compare_strategies(Console(quiet=True), "some", records, broadcasts.variant)
    assert {r.strategy for r in results} >= {"exhaustive", "mgd", "smgd", "racing"}
    costs = {result.strategy: result.seconds for result in results}
    assert costs["smgd"] < costs["exhaustive"] / 2


def test_who_asks_a_model_is_replayed_without_it_too(broadcasts):
    """It finds what is best where the simplest forms mislead; the others are as they were."""

    def takes(shape, segment):
        hopeless = 100 * (segment == 8)
        return 1e-3 * (1 + SHAPES.index(shape or "flat") + hopeless + abs(segment - 64) / 64)

    def knows(variant, block):
        shape = dict(variant.body.binding).get("shape")
        seconds = takes(shape, dict(variant.values).get("segment", 1024))
        return Expectation(seconds, seconds, True) if shape else None

    records, console = recorded(broadcasts, takes), Console(quiet=True)
    one, other = (
        {r.strategy: r for r in compare_strategies(console, "x", records, broadcasts.variant, e)}
        for e in (knows, None)
    )
    assert {*one} - {*other} == {"racing, with the model"}
    assert one["racing"] == other["racing"] and one["smgd"] == other["smgd"]
    assert max(one["racing, with the model"].regret) < 0.03 < max(one["racing"].regret)
