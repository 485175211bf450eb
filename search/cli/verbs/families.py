"""Compare families of algorithms in journals of exhaustive searches."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.analysis.families import compare_families
from search.cli.desk import Desk
from search.results.journal import any_journal


def add_options(parser: ArgumentParser) -> None:
    """Which journals."""
    parser.add_argument("journals", metavar="JOURNAL", nargs="+", help="of an exhaustive search")


def run(desk: Desk, options: Namespace) -> None:
    """Compare them."""
    for name in options.journals:
        records = any_journal(Path(name)).of(desk.catalogue.collective.name)
        compare_families(desk.console, records, desk.catalogue)
