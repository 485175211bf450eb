"""Replay journals of exhaustive searches with every strategy."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.analysis.compare import compare_strategies
from search.cli.desk import Desk
from search.cli.options import add_collective
from search.model.expectation import foreseen_beside, read_foreseen
from search.results.journal import any_journal


def add_options(parser: ArgumentParser) -> None:
    """Which journals."""
    add_collective(parser)
    parser.add_argument("journals", metavar="JOURNAL", nargs="+", help="of an exhaustive search")


def run(desk: Desk, options: Namespace) -> None:
    """Replay them, with what a model expected if that stands beside them."""
    desk = desk.of(options.collective)
    for name in options.journals:
        records = any_journal(Path(name)).of(options.collective)
        expects = read_foreseen(foreseen_beside(Path(name)))
        compare_strategies(desk.console, name, records, desk.catalogue.variant, expects)
