"""What the tests share: the tools that configure found, and emitted files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from search.catalogue.catalogue import Catalogue, every_catalogue  # noqa: E402
from search.cli.workplace import GENERIC  # noqa: E402
from search.cluster.topology_file import parse_conf  # noqa: E402
from search.decide.decision import Decision, hashed_tree  # noqa: E402
from search.decide.decision_file import read_decision  # noqa: E402
from search.emit.emission import emit_c, emit_h  # noqa: E402
from search.toolchain import TEMPLATES, Toolchain, read_toolchain  # noqa: E402
from tests.ways import waiting_ranks  # noqa: E402

settings.register_profile("fixed", derandomize=True)
"""The same examples each time: what was green stays so, and check-full draws others."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many cases the tests put under the oracle."""
    reports = [one for kind in terminalreporter.stats.values() for one in kind]
    properties = [p for one in reports for p in getattr(one, "user_properties", ())]
    cases = sum(value for name, value in properties if name == "cases")
    if cases:
        terminalreporter.write_line(f"{cases} cases of MPI_Alltoall under the oracle")


@pytest.fixture(scope="session")
def tools() -> Toolchain:
    return read_toolchain(Path(os.environ.get("ATALL_CONFIG", ROOT / "config.mk")))


@pytest.fixture(scope="session")
def emulation() -> None:
    """Skips where this machine does not let us make hosts of namespaces."""
    user = [] if os.geteuid() == 0 else ["-Ur"]
    words = ["unshare", *user, "-nm", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare: install util-linux")
    if done.returncode:
        pytest.skip(f"no emulated clusters here: {done.stderr.strip()}")


@pytest.fixture(scope="session")
def waiting(tools: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings with which many ranks share few processors: they wait, not spin."""
    return waiting_ranks(tools, tmp_path_factory.mktemp("preload") / "libblocking.so")


@pytest.fixture(scope="module")
def waiting_jobs(waiting: dict[str, str]) -> Iterator[None]:
    """In the tests of a module jobs on this machine wait, too."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in waiting.items():
            patch.setenv(key, value)
        yield


@pytest.fixture(scope="session")
def patient(waiting: dict[str, str]) -> list[str]:
    """The same as options of mpiexec."""
    return [word for key, value in waiting.items() for word in ("-genv", key, value)]


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue(TEMPLATES / "alltoall")


@pytest.fixture(scope="session")
def beside(catalogue: Catalogue) -> list[Catalogue]:
    """Those of the other collectives."""
    every = every_catalogue(TEMPLATES)
    return [one for one in every if one.collective != catalogue.collective]


@pytest.fixture(scope="session")
def every_body(catalogue: Catalogue, generic: Decision) -> dict[str, str]:
    """The emitted files with all bodies, as the measuring job has them, by name."""
    text = emit_c(generic, catalogue, TEMPLATES, all_bodies=True)
    return {"alltoall.c": text, "alltoall.h": emit_h(TEMPLATES)}


TREE = """
SwitchName=s0 Nodes=h[0-1] LinkSpeed=1
SwitchName=s1 Nodes=h[2-3] Switches=s0 LinkSpeed=1
"""


@pytest.fixture(scope="session")
def whole(catalogue: Catalogue, generic: Decision) -> str:
    """The emitted file with all that there may be in it: bodies, a tree of h0 to h3, leaders."""
    tree = hashed_tree(parse_conf(TREE, "here"))
    return emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, all_bodies=True)


@pytest.fixture(scope="session")
def generic(catalogue: Catalogue) -> Decision:
    return read_decision(GENERIC, catalogue)
