"""Where a build's files are, and what several stages need of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from search.catalogue.catalogue import Catalogue, every_catalogue
from search.catalogue.collective import DEFAULT
from search.cli.configured import read_cluster
from search.cli.settings import Settings
from search.cluster.hosts import Cluster
from search.decide.decision import Decision, hashed_tree
from search.decide.decision_file import read_decision
from search.emit.emission import emit_c, emit_h
from search.errors import UserError
from search.files import write_whole
from search.measure.network import Network
from search.measure.probe import read_machine
from search.model.simulator import Simulator, calibrated
from search.results.workload import Team
from search.toolchain import SOURCE, TEMPLATES, Toolchain

PRESETS = {path.stem: path for path in sorted((SOURCE / "search" / "presets").glob("*.toml"))}
"""Published decisions over our bodies."""
USUAL_PRESET = "mpich"
GENERIC = PRESETS[USUAL_PRESET]
MOST_DILATED = 0.75


def read_presets(catalogue: Catalogue) -> dict[str, Decision]:
    """All of them."""
    return {name: read_decision(path, catalogue) for name, path in PRESETS.items()}


class Workplace:
    """Where a build's files are, below the directory that configure runs in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.build = root / "build"
        self.generated = root / "generated"
        self.cluster = self.build / "cluster.json"
        self.machine = self.build / "machine.json"
        self.identity = self.build / "fingerprint.json"
        self.model = self.build / "model.json"
        self.journal = self.build / "measurements.jsonl"
        self.decision = self.generated / "decision.toml"


def build_job(
    tools: Toolchain,
    cluster: Cluster,
    place: Workplace,
    program: str = "measure",
    *define: str,
) -> Path:
    """Build the measuring job with every algorithm of every collective in it; where it is."""
    every = {one.collective.name: one for one in every_catalogue(TEMPLATES)}
    catalogue = every.pop(DEFAULT)
    source = place.build / "catalogue.c"
    generic = read_decision(GENERIC, catalogue)
    decision = replace(generic, tree=hashed_tree(cluster.dilated(1).topology))
    write_whole(
        source, emit_c(decision, catalogue, TEMPLATES, all_bodies=True, beside=[*every.values()])
    )
    write_whole(place.build / "alltoall.h", emit_h(TEMPLATES))
    tools.compile_job(source, place.build / program, ["ATALL_EVERY", *define])
    return place.build / program


def emit_decision(place: Workplace, catalogue: Catalogue) -> None:
    """Write generated/alltoall.c and .h from generated/decision.toml."""
    decision = read_decision(place.decision, catalogue)
    write_whole(place.generated / "alltoall.h", emit_h(TEMPLATES))
    write_whole(place.generated / "alltoall.c", emit_c(decision, catalogue, TEMPLATES))


def build_simulator(
    place: Workplace, cluster: Cluster, tools: Toolchain, network: Network
) -> Callable[[Team], Simulator]:
    """Build the schedule model; what starts it for a team, adjusted to what the
    probe saw."""
    program = place.build / "simulate"
    tools.compile_simulator(place.build / "catalogue.c", program)
    world = calibrated(program, cluster, network)
    return lambda team: Simulator(
        program, replace(world, ranks=tuple(world.ranks[rank] for rank in cluster.members(team)))
    )


def read_identity(place: Workplace) -> dict[str, Any]:
    """The fingerprint of the last tuning."""
    try:
        return dict(json.loads(place.identity.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UserError("nothing is measured yet: run ./configure or 'make tune' first") from error


def sizes_of(place: Workplace, settings: Settings, team: Team) -> tuple[int, ...]:
    """The blocks to search on a team, in bytes to each peer: those of the settings and,
    unless the user named them, where the library changes its protocol and one byte past it; where
    time is dilated none whose calls take MOST_DILATED seconds."""
    if settings.profile:
        return settings.profile[team.ranks]
    machine = read_machine(place.machine)
    sizes = set(settings.sizes)
    if settings.own_sizes:
        return tuple(sorted(sizes))
    for jump in machine.thresholds if machine else ():
        if min(sizes) < jump < max(sizes):
            sizes |= {jump, jump + 1}
    cluster = read_cluster(place.cluster)[0]
    if cluster.dilation > 1:  # what is beyond is left to the largest that is measured
        sizes = {size for size in sizes if (cluster.limit(team.at(size)) or 0.0) <= MOST_DILATED}
    return tuple(sorted(sizes))
