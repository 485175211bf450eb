"""Corners of MPI: sessions, callbacks, context ids, wrong types and sides, several files."""

import os
import re
import signal
import subprocess

import pytest

from search.emit.emission import emit_c, emit_h
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .ways import FLAGS, TABLES, compiled, run


@pytest.fixture(scope="module")
def text(whole):
    """The emitted file with everything, that soon says what it waits for."""
    assert "patience = 10.0" in whole
    return whole.replace("patience = 10.0", "patience = 0.5")


def build(tools, folder, text, name="corners", *options):
    """The program of checks around an emitted file."""
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


FEW = {("as it is", 0), ("leaders", 1)}
"""Kinds of row, and how many communicators can still be made: one for leaders is missing then."""


@pytest.mark.parametrize(
    ("table", "left"),
    [
        pytest.param(t, n, marks=() if (t, n) in FEW else pytest.mark.full)
        for t in TABLES
        for n in range(4)
    ],
)
def test_communicators_may_end(tools, program, waiting, table, left):
    said = run(tools, 4, program, "ids", left, seconds=600, **waiting, **TABLES[table])
    assert "fine" in said


def leaked(said):
    """What the leak sanitizer found of what the emitted file allocated: MPI libraries have leaks of
    their own, some in modules that are gone when it looks."""
    found = re.split(r"\n\s*\n", said)
    return [one for one in found if " leak of " in one and "-subject.c" in one]


def checked_for_leaks(tools, folder, text, table, *words):
    """What a check says under the leak sanitizer."""
    options = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    program = folder / "leaks"
    if not program.exists():
        build(tools, folder, text, "leaks", *options)
    settings = {"ASAN_OPTIONS": "detect_leaks=1", "UCX_MEM_EVENTS": "n"}
    try:
        return run(tools, 4, program, *words, **settings, **TABLES[table])
    except AssertionError as error:
        if "LeakSanitizer has encountered a fatal error" in str(error):
            pytest.skip("the leak sanitizer does not run here")
        return str(error)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return tmp_path_factory.mktemp("leaks")


@pytest.mark.parametrize("words", [["call"], ["deleted", 1], ["outlive"], ["sides"]], ids=str)
@pytest.mark.parametrize("table", ["phased", "leaders"])
def test_nothing_leaks(tools, text, sanitized, table, words):
    said = checked_for_leaks(tools, sanitized, text, table, *words)
    assert "fine" in said and not leaked(said), said


def test_a_leak_is_found(tools, text, tmp_path):
    assert "    free(rankings->order);" in text
    mutant = text.replace("    free(rankings->order);", "    rankings->order = NULL;")
    assert leaked(checked_for_leaks(tools, tmp_path, mutant, "phased", "call"))


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
