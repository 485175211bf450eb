"""What the last tuning measured."""

from __future__ import annotations

from search.cli.desk import Desk
from search.cli.workplace import read_identity
from search.errors import UserError
from search.measure.network import Network
from search.measure.probe import read_machine
from search.results.cell import cells_of
from search.results.fingerprint import digest
from search.results.journal import Journal
from search.results.record import Record
from search.strategy.request import Cells


def read_journal(desk: Desk) -> Journal:
    """The journal of the last tuning."""
    return Journal(desk.place.journal, digest(read_identity(desk.place)))


def read_network(desk: Desk) -> Network:
    """The model's parameters from the last probe; UserError if there are none."""
    machine = read_machine(desk.place.machine)
    if desk.configured()[0].grid or not (machine and machine.network):
        raise UserError("no model: 'make probe' measures its parameters, not of a grid")
    return machine.network


def read_cells(desk: Desk) -> tuple[list[Record], Cells]:
    """What the journal of the last tuning holds of the collective: records, and cells of them."""
    catalogue = desk.catalogue
    records = read_journal(desk).of(catalogue.collective.name)
    _, settings = desk.configured()
    variants = {catalogue.variant(record.label) for record in records if record.label}
    known = sorted(variants, key=lambda variant: variant.simplicity)
    cells = cells_of(records, known)
    native = catalogue.native
    if not any(native in cell.rounds for cell in cells.values()):
        raise UserError(
            "nothing is measured yet: run ./configure or 'make tune', with enough --time-limit="
        )
    return records, {key: cell for key, cell in cells.items() if key.team in settings.teams}
