"""Corners of MPI: sessions, callbacks, context ids, wrong types and sides, several files."""

import os
import re
import signal
import subprocess
from dataclasses import replace

import pytest

from search.cluster.topology_file import parse_conf
from search.decision import hashed_tree
from search.emission import emit_c, emit_h
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .ways import FLAGS, compiled, run

TREE = (
    "SwitchName=s0 Nodes=h[0-1] LinkSpeed=1\nSwitchName=s1 Nodes=h[2-3] Switches=s0 LinkSpeed=1\n"
)
LED = {"ATALL_FORCE": "ring(sync=none,leaders=1)", "CORNERS_PER_HOST": "2"}
TABLES = {
    "as it is": {},
    "phased": {"ATALL_FORCE": "phased(sync=sender,segment=0,depth=1)"},
    "bruck": {"ATALL_FORCE": "bruck(radix=2)"},
    "gather_scatter": {"ATALL_FORCE": "gather_scatter"},
    "leaders": LED,
}


@pytest.fixture(scope="module")
def text(catalogue, generic):
    """The emitted file with all bodies, tree and leaders, that soon says what it waits for."""
    tree = hashed_tree(parse_conf(TREE, "here"))
    whole = emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, all_bodies=True)
    assert "patience = 10.0" in whole
    return whole.replace("patience = 10.0", "patience = 0.5")


def build(tools, folder, text, name="corners", *options):
    """The program of checks around an emitted file."""
    (folder / f"{name}.h").write_text("")
    (folder / "alltoall.h").write_text(emit_h(TEMPLATES))
    (folder / f"{name}-subject.c").write_text(text)
    options = [*options, "-pthread", f"-I{folder}", f'-DATALL_SOURCE="{name}-subject.c"']
    return compiled(tools, folder / name, [ROOT / "tests" / "corners.c"], *FLAGS, *options)


@pytest.fixture(scope="module")
def program(tools, text, tmp_path_factory):
    return build(tools, tmp_path_factory.mktemp("corners"), text)


CHECKS = [
    ["sessions"],
    ["outlive"],
    ["deleted", 0],
    ["deleted", 1],
    ["self", 0],
    ["self", 1],
    ["types"],
    ["sides"],
]


@pytest.mark.parametrize("words", CHECKS, ids=lambda words: "-".join(map(str, words)))
@pytest.mark.parametrize("table", TABLES)
def test_a_corner(tools, program, table, words):
    assert "fine" in run(tools, 4, program, *words, **TABLES[table])


@pytest.mark.parametrize("left", range(4))
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(t, marks=() if t in ("as it is", "leaders") else pytest.mark.full)
        for t in TABLES
    ],
)
def test_communicators_may_end(tools, program, table, left):
    assert "fine" in run(tools, 4, program, "ids", left, seconds=600, **TABLES[table])


def test_another_threads_errors_are_raised(tools, program):
    said = run(tools, 2, program, "handlers", 300)
    assert "fine" in said


@pytest.mark.parametrize(
    "label",
    [
        "mesh(dimensions=2147483647)",
        "mesh(dimensions=1)",
        "ring(sync=none",
        "ring(sync=none)x",
        "ring(sync=none))",
        "ringsync=none)",
        "bruck(radix=2,)",
        "()",
    ],
)
def test_what_is_no_label_is_ignored_once(tools, program, label):
    said = run(tools, 4, program, "call", ATALL_FORCE=label, seconds=30)
    assert said.count(f"ATALL_FORCE={label} ignored") == 1


def test_a_large_number_is_no_work(tools, program):
    said = run(tools, 4, program, "call", ATALL_FORCE="mesh(dimensions=999999999)", seconds=30)
    assert "ignored" not in said


def jobs(tools, seconds, *programs):
    """What a job of several programs says, each on two ranks; it is killed after some seconds."""
    words = [w for program in programs for w in (":", "-n", "2", *map(str, program))][1:]
    job = subprocess.Popen(
        [tools.mpiexec, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return job.communicate(timeout=seconds)[0], job.returncode
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGTERM)
        return job.communicate()[0], None


def test_ranks_with_other_files_get_the_librarys_own(tools, program, text, tmp_path):
    other, changed = re.subn(r"ATALL_SCRATCH_MOST = \d+", "ATALL_SCRATCH_MOST = 4096", text)
    mark = re.search(r"ATALL_FILE_MARK = (\d+)", text)
    assert changed and mark
    other = other.replace(mark[0], f"ATALL_FILE_MARK = {int(mark[1]) ^ 1}")
    second = build(tools, tmp_path, other, "other")
    said, code = jobs(tools, 60, (program, "call"), (second, "call"))
    assert code == 0, said
    assert said.count("not all ranks have the same alltoall.c") == 1


def test_the_mark_of_a_file_is_its_own(catalogue, generic):
    texts = [
        emit_c(generic, catalogue, TEMPLATES, all_bodies=every) for every in (False, True, False)
    ]
    marks = [re.search(r"ATALL_FILE_MARK = (\d+)", text)[1] for text in texts]
    assert marks[0] == marks[2] != marks[1]
    assert all(0 < int(mark) < 1 << 31 for mark in marks)


def test_ranks_without_the_file_are_named_as_the_likely_cause(tools, program, text, tmp_path):
    plain = tmp_path / "plain.c"
    plain.write_text(
        "#define _GNU_SOURCE\n#include <mpi.h>\n"
        "#define ATALL_Alltoall MPI_Alltoall\n#define ATALL_SOURCE <stdbool.h>\n"
        f'#include "{ROOT / "tests" / "corners.c"}"\n'
    )
    without = compiled(tools, tmp_path / "plain", [plain], *FLAGS, "-pthread")
    said, _ = jobs(tools, 5, (program, "call"), (without, "call"))
    assert said.count("first MPI_Alltoall: is this file in") == 1, said
