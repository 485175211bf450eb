"""MPICH's own test suite, alone and with our library preloaded: no difference is expected.

    python -m tests.mpich_suite MPICC FOLDER [DIRECTORY...]

takes the suite of Debian's source package of MPICH (or of the tree that MPICH_SOURCE names) to
FOLDER, builds it with MPICC, and prints what passes alone only. Programs that call MPI_Alltoall run
with every body on 1 to 8 ranks, all others once, with a table that mixes families.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from search.catalogue.catalogue import Catalogue
from search.cli.workplace import GENERIC
from search.cluster.topology_file import parse_conf
from search.decide.decision import Cutoff, DecisionTable, hashed_tree
from search.decide.decision_file import read_decision
from search.emit.emission import emit_c, emit_h
from search.emit.install import SONAME, build_library
from search.toolchain import TEMPLATES, Toolchain
from tests.conftest import TREE
from tests.ways import waiting_ranks

TESTS = Path(__file__).resolve().parent
DIRECTORIES = ("coll", "errors", "attr", "comm", "threads", "init", "topo")
MIXED = {
    16: "gather_scatter",
    256: "bruck(radix=2)",
    2048: "ring(sync=light,leaders=1)",
    16384: "phased(sync=sender,segment=0,depth=1)",
    None: "pair(sync=none)",
}
"""The table of those that do not call MPI_Alltoall much: largest block and variant."""
SECONDS, PATIENCE = 60.0, 5
MOST_TRIES = 10
MOST_RANKS = 8
HOSTS = 4


@dataclass(frozen=True)
class Case:
    """A line of a testlist."""

    folder: str
    program: str
    ranks: int
    words: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.folder}/{self.program} {' '.join(self.words)} on {self.ranks}"


def fetch(folder: Path) -> Path:
    """The suite's source, ``test/mpi`` of MPICH; OSError or CalledProcessError if there is none."""
    if "MPICH_SOURCE" in os.environ:
        return Path(os.environ["MPICH_SOURCE"]) / "test" / "mpi"
    for name in ("lists/partial", "source"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    mirrors = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    (folder / "sources.list").write_text(f"deb-src {mirrors[0]} bookworm main\n")
    options = [f"Dir::Etc::sourcelist={folder}/sources.list", "Dir::Etc::sourceparts=-"]
    options += [f"Dir::State::lists={folder}/lists"]
    words = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    subprocess.run([*words, "update"], check=True, capture_output=True)
    subprocess.run(
        [*words, "source", "--download-only", "mpich"],
        cwd=folder / "source", check=True, capture_output=True,
    )  # fmt: skip
    (archive,) = (folder / "source").glob("*.orig.tar.*")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "source", filter="tar")
    (found,) = (folder / "source").glob("*/test/mpi")
    return found


def build(source: Path, folder: Path, mpicc: str) -> None:
    """Configure and make all programs of DIRECTORIES, in parallel; one that fails is not run."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"--with-mpi={Path(mpicc).parent.parent}", f"CC={mpicc}"]
    words += ["--disable-fortran", "--disable-cxx"]
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([str(source / "configure"), *words], check=True, **quiet)
    for name in ("dtpools", "util", *DIRECTORIES):
        subprocess.run(["make", "-k", "-j2", "-C", name], check=False, **quiet)


def cases(source: Path, folder: Path) -> list[Case]:
    """What the testlists of DIRECTORIES ask for, of programs that were built, without what is known
    to fail; configure makes some of the lists."""
    found = []
    for tree in (source, folder):
        for directory in DIRECTORIES:
            for listed in sorted((tree / directory).rglob("testlist")):
                where = str(listed.parent.relative_to(tree))
                lines = (line.split("#")[0].split() for line in listed.read_text().splitlines())
                found += [_case(where, *words) for words in lines if words]
    return [case for case in dict.fromkeys(found) if case and _is_program(folder, case)]


def _case(folder: str, program: str, *words: str) -> Case | None:
    """What a line asks for, unless it is known to fail."""
    if any(word.startswith(("xfail", "mpiexecarg")) for word in words):
        return None
    settings = (word[4:].partition("=") for word in words if word.startswith("env="))
    return Case(
        folder,
        program,
        min(MOST_RANKS, int(next((word for word in words if word.isdigit()), "1"))),
        tuple(word[4:] for word in words if word.startswith("arg=")),
        tuple((key, value) for key, _, value in settings),
    )


def _is_program(folder: Path, case: Case) -> bool:
    path = folder / case.folder / case.program
    return path.is_file() and os.access(path, os.X_OK)


def calls_alltoall(source: Path, case: Case) -> bool:
    """Whether a program has a call of MPI_Alltoall in its text."""
    text = source / case.folder / f"{case.program}.c"
    return text.exists() and bool(re.search(r"\bMPI_Alltoall\s*\(", text.read_text("latin-1")))


def library(tools: Toolchain, folder: Path, catalogue: Catalogue) -> Path:
    """Our shared library with all bodies, the mixed table, and hosts that are not there."""
    generic = read_decision(GENERIC, catalogue)
    rows = tuple(Cutoff(most, catalogue.variant(label)) for most, label in MIXED.items())
    tables = (DecisionTable(0, rows), generic.tables[-1])
    tree = hashed_tree(parse_conf(TREE, "here"))
    text = emit_c(replace(generic, tables=tables, tree=tree), catalogue, TEMPLATES, all_bodies=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "alltoall.h").write_text(emit_h(TEMPLATES))
    (folder / "alltoall.c").write_text(f'#include "{TESTS}/made_up_hosts.h"\n{text}')
    build_library(tools, folder, folder)
    return folder / SONAME


def outcome(
    tools: Toolchain, folder: Path, case: Case, settings: dict[str, str], tries: tuple[float, ...]
) -> str:
    """What came of a case, in a word; what takes too long is tried again with more seconds."""
    for seconds in tries:
        argv = [tools.mpiexec, "-n", str(case.ranks)]
        argv += [word for key, value in settings.items() for word in ("-genv", key, value)]
        process = subprocess.Popen(
            [*argv, f"./{case.program}", *case.words],
            cwd=folder / case.folder,
            env={**os.environ, **dict(case.settings)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            continue
        if process.returncode == 0:
            return "passed" if b"No Errors" in said else "silent"
        return "failed, as it should" if b"No Errors" in said else "failed"
    return "hung"


def may_be(
    tools: Toolchain, folder: Path, case: Case, settings: dict[str, str], found: str
) -> bool:
    """Whether a case now and then comes to something alone, too: spawning in threads does."""
    tries = (outcome(tools, folder, case, settings, (SECONDS,)) for _ in range(MOST_TRIES))
    return found in tries


def compare(
    tools: Toolchain,
    source: Path,
    folder: Path,
    say: Callable[[str], None] = print,
    only: tuple[str, ...] = (),
) -> tuple[int, list[str]]:
    """How many runs there were with our library, and those that came to something else than
    without it."""
    catalogue = Catalogue(TEMPLATES / "alltoall")
    ours = library(tools, folder / "library", catalogue)
    waiting = waiting_ranks(tools, folder / "library" / "libblocking.so")
    bodies = {
        variant.body: variant.label for variant in catalogue.variants(MOST_RANKS, legacy=True)
    }
    runs, different = 0, []
    for case in cases(source, folder):
        if only and case.folder.split("/")[0] not in only:
            continue
        is_caller = calls_alltoall(source, case)
        for ranks in range(1, MOST_RANKS + 1) if is_caller else [case.ranks]:
            mine = replace(case, ranks=ranks)
            alone = outcome(tools, folder, mine, waiting, (SECONDS,))
            if alone == "hung":
                say(f"{mine}: hangs alone")
                continue
            for label in bodies.values() if is_caller and ranks > 1 else [""]:
                settings = {
                    **waiting,
                    "LD_PRELOAD": f"{waiting['LD_PRELOAD']}:{ours}",
                    "RANKS_PER_HOST": str(-(-ranks // HOSTS)),
                    **({"ATALL_FORCE": label} if label else {}),
                }
                found = outcome(tools, folder, mine, settings, (SECONDS, PATIENCE * SECONDS))
                runs += 1
                if found != alone and not may_be(tools, folder, mine, waiting, found):
                    different.append(f"{mine} {label}: {found}, alone {alone}")
                    say(different[-1])
    return runs, different


def main(mpicc: str, place: str, *only: str) -> int:
    folder = Path(place).resolve()
    tools = Toolchain(mpicc, str(Path(mpicc).with_name("mpiexec")), ())
    source = fetch(folder)
    build(source, folder / "build", mpicc)
    runs, different = compare(tools, source, folder / "build", only=only)
    print(f"{runs} runs, {len(different)} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
