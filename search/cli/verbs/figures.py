"""Tune and bench the clusters of doc/clusters that are named, or all: doc/results.md."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.cli.desk import Desk
from search.cli.options import parse_and_run


def add_options(parser: ArgumentParser) -> None:
    """Which clusters."""
    parser.add_argument("clusters", metavar="CLUSTER", nargs="*", help="such as two-switches")


def run(desk: Desk, options: Namespace) -> None:
    """Tune, bench and write."""
    from search.analysis.figures import make_figures  # matplotlib takes a second to load

    def run_cluster(path: Path, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(desk.place.root / "config.mk", folder)
        for words in (["configure", f"--emulate={path}", "--fresh"], ["bench"]):
            parse_and_run([*words, *(["--quiet"] if options.quiet else [])], folder)
        return folder / "build" / "bench.json"

    make_figures(
        options.clusters, desk.place.root, run_cluster, lambda text: desk.console.rule(text)
    )
