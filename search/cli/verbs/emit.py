"""Write generated/alltoall.c and .h from generated/decision.toml."""

from __future__ import annotations

from argparse import Namespace

from search.cli.desk import Desk
from search.cli.verbs.generic import emit_generic
from search.cli.workplace import emit_decision


def run(desk: Desk, options: Namespace) -> None:
    """Write them; where nothing is decided, the untuned ones."""
    if desk.place.decision.exists():
        emit_decision(desk.place, desk.catalogue)
    else:
        emit_generic(desk)
