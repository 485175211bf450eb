"""The ways in which a program gets the emitted MPI_Alltoall, tried out with one MPI library:

    python -m tests.ways MPICC...

prints a table with a row for each language and library, as in doc/portability.md, and another one:
the shared library compiled with each MPICH, preloaded under programs of every other.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from search.emit.install import SONAME, build_library
from search.errors import EnvironmentFailure
from search.toolchain import TEMPLATES, Toolchain

TESTS = Path(__file__).resolve().parent
FLAGS = ["-std=c11", "-O1", "-Wall", "-Wextra", "-fPIC"]
TABLES = {
    "as it is": {},
    "phased": {"ATALL_FORCE": "phased(sync=sender,segment=0,depth=1)"},
    "bruck": {"ATALL_FORCE": "bruck(radix=2)"},
    "gather_scatter": {"ATALL_FORCE": "gather_scatter"},
    "leaders": {"ATALL_FORCE": "ring(sync=none,leaders=1)", "RANKS_PER_HOST": "2"},
}
"""Kinds of row, and what has a file with all of them serve calls by one."""
WAYS = ("object", "static", "shared", "preload", "wrap")
WRAPPERS = {"C": "mpicc", "C++": "mpicxx", "Fortran": "mpifort"}
PYTHON = """\
from mpi4py import MPI
import numpy
comm = MPI.COMM_WORLD
sent = numpy.arange(comm.size, dtype='i') + 100 * comm.rank
got = numpy.empty_like(sent)
comm.Alltoall(sent, got)
assert (got == comm.rank + 100 * numpy.arange(comm.size)).all()
if comm.rank == 0: print('fine', flush=True)
"""


def compiled(tools, output, sources, *options, compiler=None):
    """A program or object made of sources and libraries."""
    argv = [compiler or tools.mpicc, *options, *map(str, sources), "-o", str(output)]
    tools.run(argv, f"building {output.name}")
    return output


def build_ways(tools, place, text, header):
    """Compile an emitted file in every way that a user may."""
    (place / "alltoall.c").write_text(text)
    (place / "alltoall.h").write_text(header)
    source = [place / "alltoall.c"]
    compiled(tools, place / "override.o", source, *FLAGS, "-DATALL_OVERRIDE", "-c")
    build_library(tools, place, place)
    return place


def link_words(place, way, language):
    """What a program is linked with. Fortran's calls come from the library: the linker does not see
    that they need ours."""
    is_fortran = language == "Fortran"
    return {
        "object": [place / "override.o"],
        "static": [*(["-Wl,-u,MPI_Alltoall"] if is_fortran else []), place / "libatall.a"],
        "shared": ["-Wl,--no-as-needed", place / SONAME, f"-Wl,-rpath,{place}"],
        "preload": [],
        "wrap": [f"-Wl,--wrap=MPI_Alltoall{_wrapped(place)}", place / "libatall.a"],
    }[way]


APPLICABLE = {"mpi4py": ("preload",), "Fortran": WAYS[:-1]}
"""The ways of a language that has not all of them."""


def _wrapped(place):
    """MPI_Alltoall_c only where it is there."""
    symbols = subprocess.run(
        ["nm", str(place / "libatall.a")], capture_output=True, text=True, check=True
    ).stdout
    return ",--wrap=MPI_Alltoall_c" if "ATALL_Alltoall_c" in symbols else ""


def compiler_for(tools, language):
    """The library's compiler of a language, if it works."""
    path = Path(tools.mpicc).with_name(WRAPPERS[language])
    if language == "C":
        return tools.mpicc
    if not path.exists():
        return None
    done = subprocess.run([str(path), "--version"], capture_output=True, check=False)
    return str(path) if done.returncode == 0 else None


def has_mpi4py(tools):
    """Whether this Python's mpi4py runs on the library: PyPI's looks for a name of upstream's, and
    may find another library that has it."""
    script = "from mpi4py import MPI; print(MPI.Get_library_version())"
    argv = [tools.mpiexec, *LAUNCH, "-n", "1", sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode == 0 and library_name(tools).split()[-1] in done.stdout


def waiting_ranks(tools, preload):
    """Settings with which many ranks share few processors: they wait, not spin."""
    tools.compile_preload(preload)
    return {**tools.transport(), "MPIR_CVAR_NOLOCAL": "1", "LD_PRELOAD": str(preload)}


def run(tools, ranks, program, *words, seconds=120, **environment):
    """What a job prints on standard output and error; AssertionError unless it ends with 0."""
    done = subprocess.run(
        [tools.mpiexec, *LAUNCH, "-n", str(ranks), str(program), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


LAUNCH: list[str] = []
"""Words for mpiexec, which differ between libraries."""


def stats(said):
    """The lines of ATALL_STATS: (ranks, block, calls, served by)."""
    lines = re.findall(r"^(\d+) (\d+) (\d+) [\d.]+ (.*)$", said, re.MULTILINE)
    return [(int(a), int(b), int(c), d) for a, b, c, d in lines]


def try_way(tools, place, language, way):
    """Build and run a caller; whether its calls were ours and right. None: the library has nothing
    for this language."""
    preloaded = place / SONAME if way == "preload" else None
    if language == "mpi4py":
        if not has_mpi4py(tools):
            return None
        program, words = sys.executable, ["-c", PYTHON]
    else:
        compiler = compiler_for(tools, language)
        if not compiler:
            return None
        suffix = "f90" if language == "Fortran" else "c"
        kind = {"C": ["-x", "c"], "C++": ["-x", "c++"], "Fortran": []}[language]
        after = ["-x", "none"] if kind else []
        sources = [*kind, TESTS / f"caller.{suffix}", *after, *link_words(place, way, language)]
        program, words = place / f"caller-{language}-{way}", []
        compiled(tools, program, sources, "-O1", compiler=compiler)
    return is_served(tools, program, *words, preloaded=preloaded)


def is_served(tools, program, *words, preloaded=None):
    """Whether a program's calls are right and ours."""
    environment = {"LD_PRELOAD": str(preloaded)} if preloaded else {}
    said = run(tools, 3, program, *words, ATALL_STATS="1", **environment)
    return "fine" in said and sum(calls for _, _, calls, _ in stats(said)) >= 1


def library_name(tools):
    """What an MPI library calls itself."""
    if (Path(tools.mpicc).with_name("ompi_info")).exists():
        text = tools.run([tools.mpiexec, "--version"], "mpiexec").splitlines()[0]
        return "Open MPI " + re.findall(r"[\d.]+", text)[0]
    text = tools.run([str(Path(tools.mpicc).with_name("mpichversion"))], "mpichversion")
    return "MPICH " + re.findall(r"Version:\s*(\S+)", text)[0]


def outcome(trial, *arguments, **named):
    """What a trial comes to, in a word for a table."""
    try:
        worked = trial(*arguments, **named)
    except (EnvironmentFailure, AssertionError) as error:
        print(f"{arguments[1:]}: {error}", file=sys.stderr)
        return "fails"
    return "none" if worked is None else "ok" if worked else "not ours"


def show(headings, rows):
    """A table in Markdown."""
    for row in (headings, ["---"] * len(headings), *rows):
        print(f"| {' | '.join(row)} |" if row[0] != "---" else "|" + "|".join(row) + "|")
    print(flush=True)


def use(tools):
    """Launch with this library from here on."""
    is_open = "Open MPI" in library_name(tools)
    LAUNCH[:] = ["--oversubscribe", "--allow-run-as-root"] if is_open else []


def ways_rows(libraries):
    """A row for each library and language with a compiler."""
    for tools, place in libraries:
        use(tools)
        for language in (*WRAPPERS, "mpi4py"):
            mine = APPLICABLE.get(language, WAYS)
            cells = [outcome(try_way, tools, place, language, w) if w in mine else "" for w in WAYS]
            if "none" not in cells:
                yield [library_name(tools), language, *cells]


def across_rows(libraries):
    """A row for each library that ours was compiled with: under which others' programs it runs."""
    for _, compiled_with in libraries:
        cells = []
        for tools, place in libraries:
            use(tools)
            program = place / "caller-C-preload"
            preloaded = compiled_with / SONAME
            cells.append(outcome(is_served, tools, program, preloaded=preloaded))
        yield cells


def main(compilers):
    """Print the tables."""
    from search.catalogue.catalogue import Catalogue
    from search.cli.workplace import GENERIC
    from search.decide.decision_file import read_decision
    from search.emit.emission import emit_c, emit_h

    catalogue = Catalogue(TEMPLATES / "alltoall")
    text = emit_c(read_decision(GENERIC, catalogue), catalogue, TEMPLATES)
    with tempfile.TemporaryDirectory() as name:
        libraries = []
        for number, mpicc in enumerate(compilers):
            mpicc = shutil.which(mpicc) or mpicc
            mpiexec = str(Path(mpicc).with_name(Path(mpicc).name.replace("mpicc", "mpiexec")))
            place = Path(name, str(number))
            place.mkdir()
            tools = Toolchain(mpicc, mpiexec, ())
            libraries.append((tools, build_ways(tools, place, text, emit_h(TEMPLATES))))
        show(["library", "language", *WAYS], ways_rows(libraries))
        of_mpich = [one for one in libraries if "Open MPI" not in library_name(one[0])]
        if not of_mpich:
            return
        names = [library_name(tools) for tools, _ in of_mpich]
        rows = ([name, *cells] for name, cells in zip(names, across_rows(of_mpich)))
        show(["compiled with, under", *names], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
