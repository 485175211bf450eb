"""The measuring job around what ships, for bench and verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search.catalogue.algorithm import Variant
from search.cli.desk import Desk
from search.decide.decision import Decision
from search.emit.emission import emit_c, emit_h
from search.files import write_whole
from search.toolchain import TEMPLATES


def build_bench(desk: Desk, decision: Decision, rivals: Sequence[Variant]) -> Path:
    """The measuring job around what ships, and around the bodies that only rivals name."""
    place = desk.place
    source = place.generated / "alltoall.c"
    if rivals:
        source = place.build / "bench.c"
        write_whole(source, emit_c(decision, desk.catalogue, TEMPLATES, also=rivals))
        write_whole(place.build / "alltoall.h", emit_h(TEMPLATES))
    program = place.build / "bench"
    desk.tools.compile_job(source, program)
    return program
