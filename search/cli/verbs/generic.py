"""Write the untuned file, as a published decision has it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.cli.desk import Desk
from search.cli.workplace import PRESETS, USUAL_PRESET, emit_decision
from search.decide.decision_file import read_decision, write_decision


def add_options(parser: ArgumentParser) -> None:
    """Which decision."""
    parser.add_argument("--preset", choices=sorted(PRESETS), default=USUAL_PRESET)


def run(desk: Desk, options: Namespace) -> None:
    """Write it."""
    emit_generic(desk, options.preset)


def emit_generic(desk: Desk, preset: str = USUAL_PRESET) -> None:
    """Write the untuned file, from a preset."""
    write_decision(desk.place.decision, read_decision(PRESETS[preset], desk.catalogue))
    emit_decision(desk.place, desk.catalogue)
    desk.console.print(
        f"generated/alltoall.c is untuned (generic, as {preset}): "
        "./configure on the cluster tunes it"
    )
