"""Try what is installed as a user would."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.cli.desk import Desk
from search.cli.layout import add_layout_options, layout_of
from search.emit.install import check_installed


def add_options(parser: ArgumentParser) -> None:
    """Where."""
    add_layout_options(parser)


def run(desk: Desk, options: Namespace) -> None:
    """Do it."""
    check_installed(desk.tools, layout_of(options), desk.say)
