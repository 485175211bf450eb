"""What is generated from the templates as it should be; ``write`` makes it anew."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from search.catalogue.catalogue import Catalogue
from search.cli.summary import catalogue_page
from search.cli.workplace import GENERIC
from search.decide.decision_file import read_decision
from search.emit.emission import emit_c, emit_h
from search.toolchain import TEMPLATES, read_toolchain
from tests.dry_runs import build_dry_run, traces

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@cache
def pages() -> dict[Path, str]:
    """All that needs no compiler, by file: the generic and a tuned file, and the catalogue."""
    catalogue = Catalogue(TEMPLATES / "alltoall")
    generic, tuned = (read_decision(path, catalogue) for path in (GENERIC, HERE / "tuned.toml"))
    return {
        HERE / "alltoall.c": emit_c(generic, catalogue, TEMPLATES),
        HERE / "alltoall.h": emit_h(TEMPLATES),
        HERE / "tuned.c": emit_c(tuned, catalogue, TEMPLATES),
        ROOT / "doc" / "algorithms.md": catalogue_page(catalogue),
    }


def write() -> None:
    for path, text in pages().items():
        path.write_text(text)
    tools = read_toolchain(Path(os.environ.get("ATALL_CONFIG", ROOT / "config.mk")))
    catalogue = Catalogue(TEMPLATES / "alltoall")
    with tempfile.TemporaryDirectory() as folder:
        program = build_dry_run(tools, catalogue, Path(folder))
        (HERE / "traces.txt").write_text(traces(program, catalogue))
