"""Make generated/decision.toml of what was measured."""

from __future__ import annotations

from argparse import Namespace

from search.cli.desk import Desk
from search.cli.measured import read_cells
from search.cli.tuning import Tuned
from search.cli.workplace import read_identity, sizes_of
from search.cluster.watch import TELLING_STEAL
from search.decide.decision import Decision, Origin, hashed_tree
from search.decide.decision_file import write_decision
from search.decide.rows import decide
from search.measure.null_tests import dilation_text
from search.measure.probe import read_machine
from search.model.expectation import read_predictions
from search.results.fingerprint import digest
from search.results.record import usual_disturbance


def run(desk: Desk, options: Namespace) -> None:
    """Decide, from the journal."""
    make_decision(desk)


def make_decision(desk: Desk, tuned: Tuned | None = None) -> Decision:
    """Make generated/decision.toml of the journal."""
    place, (cluster, settings) = desk.place, desk.configured()
    fields = read_identity(place)
    records, cells = read_cells(desk)
    native = desk.catalogue.native
    disturbance = usual_disturbance(records)
    machine = read_machine(place.machine)
    tests = machine.null_tests if machine else None
    decision = Decision(
        decide(
            cells,
            lambda team: sizes_of(place, settings, team),
            native,
            cluster.limit,
            read_predictions(place.model),
            cluster.dilation > 1 or bool(tests and tests.is_disturbed),
            cluster.placement,
        ),
        Origin(
            library=fields["library"],
            ranks=cluster.ranks,
            grid=cluster.grid,
            hosts=tuple(sorted(set(fields["hosts"]))),
            fingerprint=digest(fields),
            noise=tuned.noise[0] if tuned and tuned.noise else "",
            dilation=dilation_text(cluster) if cluster.dilation > 1 else "",
            steal=disturbance.steal if disturbance.steal >= TELLING_STEAL else None,
        ),
        hashed_tree(cluster.dilated(1).topology),
    )
    decision.check(str(place.decision))
    write_decision(place.decision, decision)
    return decision
