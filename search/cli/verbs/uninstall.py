"""Take away what install put there."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.cli.desk import Desk
from search.cli.layout import add_layout_options, layout_of
from search.emit.install import uninstall


def add_options(parser: ArgumentParser) -> None:
    """Where."""
    add_layout_options(parser)


def run(desk: Desk, options: Namespace) -> None:
    """Do it."""
    uninstall(desk.place.root, layout_of(options), desk.tools.version, desk.say)
