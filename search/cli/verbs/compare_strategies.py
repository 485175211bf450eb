"""Replay journals of exhaustive searches with every strategy."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.analysis.compare import compare_strategies
from search.cli.desk import Desk
from search.results.journal import any_journal


def add_options(parser: ArgumentParser) -> None:
    """Which journals."""
    parser.add_argument("journals", metavar="JOURNAL", nargs="+", help="of an exhaustive search")


def run(desk: Desk, options: Namespace) -> None:
    """Replay them."""
    for name in options.journals:
        records = any_journal(Path(name)).records
        compare_strategies(desk.console, name, records, desk.catalogue.variant)
