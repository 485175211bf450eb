"""Print every algorithm with its parameters, source and cost."""

from __future__ import annotations

from argparse import Namespace

from search.cli.desk import Desk
from search.cli.summary import list_catalogue


def run(desk: Desk, options: Namespace) -> None:
    """Print them."""
    list_catalogue(desk.console, desk.catalogue)
