"""A program with the emitted file in it: life cycle, threads, errors, memory, and the ways in."""

from dataclasses import replace

import pytest

from search.cluster.topology_file import parse_conf
from search.decide.decision import Origin, hashed_tree
from search.emit.emission import emit_c, emit_h
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .ways import (
    APPLICABLE,
    FLAGS,
    TABLES,
    WAYS,
    WRAPPERS,
    build_ways,
    compiled,
    run,
    stats,
    try_way,
)


@pytest.fixture(scope="module")
def folder(tools, catalogue, generic, tmp_path_factory):
    """The generic file, compiled in each way that a user may, and the program of checks."""
    place = tmp_path_factory.mktemp("drop-in")
    build_ways(tools, place, emit_c(generic, catalogue, TEMPLATES), emit_h(TEMPLATES))
    options = ["-pthread", f"-I{place}", '-DATALL_SOURCE="alltoall.c"']
    compiled(tools, place / "drop_in", [ROOT / "tests" / "drop_in.c"], *FLAGS, *options)
    return place


# ---- what a program may do


def settings_for(words, waiting):
    """A thread that waits in MPI keeps others out, so there it spins as usual."""
    return {} if "threads" in words else waiting


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (2, ["errors"]),
        (3, ["communicators", 1500]),
        (2, ["cycles", 3000]),
        (3, ["threads", 300]),
        (1, ["heap", 100]),
        (4, ["heap", 100]),
    ],
)
def test_a_program_may(tools, folder, waiting, ranks, words):
    settings = settings_for(words, waiting)
    assert "fine" in run(tools, ranks, folder / "drop_in", *words, seconds=600, **settings)


@pytest.fixture(scope="module")
def every_row(tools, whole, tmp_path_factory):
    """The program of checks around a file with every kind of row."""
    place = tmp_path_factory.mktemp("every-row")
    (place / "alltoall.c").write_text(whole)
    (place / "alltoall.h").write_text(emit_h(TEMPLATES))
    options = ["-pthread", f"-I{place}", '-DATALL_SOURCE="alltoall.c"']
    return compiled(tools, place / "drop_in", [ROOT / "tests" / "drop_in.c"], *FLAGS, *options)


@pytest.mark.parametrize(
    "words", [["communicators", 420], ["cycles", 100], ["threads", 20], ["heap", 20]], ids=str
)
@pytest.mark.parametrize(
    "table", [pytest.param(t, marks=() if t == "leaders" else pytest.mark.full) for t in TABLES]
)
def test_a_program_may_with_every_kind_of_row(tools, every_row, waiting, table, words):
    settings = {**settings_for(words, waiting), **TABLES[table]}
    assert "fine" in run(tools, 4, every_row, *words, seconds=600, **settings)


FOREIGN = "called_from_lib:libmpi.so.12\ncalled_from_lib:libmpich.so.12\n"
"""What the thread sanitizer is not to report: the MPI library, which was built without it."""


def test_threads_do_not_race(tools, folder, tmp_path):
    (tmp_path / "foreign").write_text(FOREIGN)
    options = ["-pthread", "-g", "-fsanitize=thread", f"-I{folder}"]
    program = compiled(
        tools,
        tmp_path / "drop_in",
        [ROOT / "tests" / "drop_in.c"],
        *FLAGS,
        *options,
        '-DATALL_SOURCE="alltoall.c"',
    )
    settings = {
        "TSAN_OPTIONS": f"suppressions={tmp_path}/foreign ignore_noninstrumented_modules=1 "
        "exitcode=66",
        "UCX_MEM_EVENTS": "n",  # its hooks of malloc crash under the sanitizer
        "ATALL_STATS": str(tmp_path / "calls"),
    }
    try:
        said = run(tools, 2, program, "threads", 50, **settings)
    except AssertionError as error:
        if "unexpected memory mapping" in str(error):
            pytest.skip("the thread sanitizer does not run on this kernel")
        raise
    assert "fine" in said
    assert "WARNING: ThreadSanitizer" not in said


@pytest.mark.full
@pytest.mark.parametrize(("ranks", "words"), [(2, ["cycles", 100000]), (3, ["threads", 10000])])
def test_a_program_may_for_long(tools, folder, ranks, words):
    assert "fine" in run(tools, ranks, folder / "drop_in", *words, seconds=900)


@pytest.mark.full  # touches 8 GiB
@pytest.mark.parametrize("label", ["", "ring(sync=none)", "pair(sync=none)"])
def test_blocks_beyond_int(tools, folder, label):
    said = run(tools, 2, folder / "drop_in", "large", (1 << 31) + 8, seconds=300, ATALL_FORCE=label)
    assert "fine" in said


# ---- the environment


@pytest.fixture(scope="module")
def caller(tools, folder):
    source = ROOT / "tests" / "caller.c"
    return compiled(tools, folder / "caller", [source, folder / "override.o"], *FLAGS)


def test_calls_are_counted_on_request(tools, caller, tmp_path):
    assert "ATALL" not in run(tools, 3, caller)
    said = run(tools, 3, caller, ATALL_STATS="1")
    assert said.count("# ATALL: rank 0's calls") == 1
    assert sorted((a, b) for a, b, *_ in stats(said)) == [(3, 4), (3, 1200)]
    assert all(by.startswith(("bruck", "simple")) for *_, by in stats(said))
    path = tmp_path / "calls"
    assert "ATALL" not in run(tools, 3, caller, ATALL_STATS=str(path))
    assert len(stats(path.read_text())) == 2
    said = run(tools, 3, caller, ATALL_STATS="/nowhere/calls")
    assert "cannot write ATALL_STATS=/nowhere/calls" in said


def test_it_can_be_switched_off(tools, caller):
    said = run(tools, 2, caller, ATALL_STATS="1", ATALL_DISABLE="1")
    assert {by for *_, by in stats(said)} == {"ATALL_DISABLE"}
    said = run(tools, 2, caller, ATALL_STATS="1", ATALL_DISABLE="0")
    assert "ATALL_DISABLE" not in said


def test_it_says_what_it_does(tools, caller):
    said = run(tools, 2, caller, ATALL_VERBOSE="1")
    assert said.count("ATALL: communicator of 2 ranks: untuned table") == 1
    assert "to 256 bytes" not in said
    assert "to 256 bytes" in run(tools, 2, caller, ATALL_VERBOSE="2")
    assert "ignored" in run(tools, 2, caller, ATALL_FORCE="nothing")
    assert "ATALL" not in run(tools, 2, caller, ATALL_FORCE="nothing", ATALL_VERBOSE="0")


def test_another_library_is_noticed_once(tools, catalogue, generic, tmp_path):
    tuned = Origin("MPICH 1.2.3", 4, hosts=("00",), fingerprint="12")
    text = emit_c(replace(generic, tuned=tuned), catalogue, TEMPLATES)
    (tmp_path / "alltoall.c").write_text(text)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    sources = [ROOT / "tests" / "caller.c", tmp_path / "alltoall.c"]
    program = compiled(tools, tmp_path / "caller", sources, *FLAGS, "-DATALL_OVERRIDE")
    said = run(tools, 3, program)
    assert said.count("ATALL: tuned with MPICH 1.2.3") == 1
    assert "fine" in said
    assert "ATALL" not in run(tools, 3, program, ATALL_VERBOSE="0")


@pytest.mark.parametrize(("names", "is_known"), [("h.%d.org", True), ("g.%d.org", False)])
def test_hosts_may_differ_in_their_domains_alone(
    tools, catalogue, generic, tmp_path, names, is_known
):
    """They are found in the tree all the same; who is not there is served without it."""
    tree = hashed_tree(parse_conf("SwitchName=s Nodes=h.0.org,h.1.org,h.2.org", "here"))
    text = emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, all_bodies=True)
    hosts = f'#define MADE_UP_NAME "{names}"\n#include "{ROOT}/tests/made_up_hosts.h"\n'
    (tmp_path / "alltoall.c").write_text(hosts + text)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    sources = [ROOT / "tests" / "caller.c", tmp_path / "alltoall.c"]
    program = compiled(tools, tmp_path / "caller", sources, *FLAGS, "-DATALL_OVERRIDE")
    force = "phased(sync=sender,segment=0,depth=1)"
    said = run(tools, 3, program, ATALL_STATS="1", ATALL_FORCE=force)
    assert "fine" in said
    assert {"phased" in label for _, _, _, label in stats(said)} == {is_known}


# ---- the ways in


@pytest.mark.parametrize(
    ("language", "way"),
    [(one, way) for one in (*WRAPPERS, "mpi4py") for way in APPLICABLE.get(one, WAYS)],
)
def test_ways_in(tools, folder, language, way):
    worked = try_way(tools, folder, language, way)
    if worked is None:
        pytest.skip(f"this MPI library has nothing for {language}")
    assert worked


def test_a_profiler_keeps_working(tools, folder, tmp_path):
    sources = [ROOT / "tests" / name for name in ("caller.c", "profiler.c")]
    wrap = ["-Wl,--wrap=PMPI_Alltoall", folder / "libatall.a"]
    program = compiled(tools, tmp_path / "caller", [*sources, *wrap], "-O1")
    said = run(tools, 3, program, ATALL_STATS="1")
    assert "fine" in said
    assert "the profiler saw 2 calls" in said
    assert sum(calls for _, _, calls, _ in stats(said)) >= 2
