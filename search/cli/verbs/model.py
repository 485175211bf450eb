"""Compare what the schedule model predicts with what was measured."""

from __future__ import annotations

from argparse import Namespace

from search.analysis.validation import agreement, final, leaders, predictions, show, whole
from search.cli.desk import Desk
from search.cli.measured import read_cells
from search.cli.summary import describe
from search.cli.tuning import measure_rounds
from search.cli.workplace import build_simulator
from search.cluster.site import Site
from search.errors import UserError
from search.measure.probe import read_machine
from search.results.fingerprint import digest
from search.strategy.racing import FIRST
from search.strategy.request import Cells


def run(desk: Desk, options: Namespace) -> None:
    """Compare them."""
    with desk.site() as site:
        validate(desk, site)


def validate(desk: Desk, site: Site) -> None:
    """Compare what the schedule model predicts with the journal, to which rounds of those that lead
    are added."""
    place, (_, settings) = desk.place, desk.configured()
    machine = read_machine(place.machine)
    journal, cells = read_cells(desk)
    if site.cluster.grid or not (machine and machine.points):
        raise UserError("no model: 'make probe' measures its parameters, not of a grid")
    cells = {key: whole(cell) for key, cell in cells.items()}
    start = build_simulator(place, site.cluster, site.tools, machine.points)
    predicted = {}
    for ranks in settings.ranks:
        with start(ranks) as simulator:
            for key, cell in cells.items():
                mine = predictions(cell, simulator.predict) if key.ranks == ranks else {}
                if len(mine) > FIRST:
                    predicted[key] = mine
    if not predicted:
        raise UserError("too few variants are measured: --strategy=exhaustive times all")
    job = desk.start_job(site)
    if digest(site.fingerprint(job.library, settings.timing)) != journal.fingerprint:
        job.close()
        raise UserError("the cluster is not as it was measured: 'make tune' measures it anew")
    leading = {key: leaders(cells[key], mine) for key, mine in predicted.items()}
    decisive: Cells = {}
    measure_rounds(desk, site, job, journal, final(decisive, leading), leading)
    for ranks in settings.ranks:
        rows = [
            agreement(cells[key], decisive[key], mine)
            for key, mine in predicted.items()
            if key.ranks == ranks
        ]
        if rows:
            show(desk.console, f"{describe(site.cluster)}: {ranks} ranks", rows)
