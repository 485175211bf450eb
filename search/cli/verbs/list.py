"""Print every algorithm with its parameters, source and cost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.cli.desk import Desk
from search.cli.options import add_collective
from search.cli.summary import list_catalogue


def add_options(parser: ArgumentParser) -> None:
    """Of what."""
    add_collective(parser)


def run(desk: Desk, options: Namespace) -> None:
    """Print them."""
    list_catalogue(desk.console, desk.of(options.collective).catalogue)
