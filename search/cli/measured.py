"""What the last tuning measured."""

from __future__ import annotations

from search.cli.desk import Desk
from search.cli.workplace import read_identity
from search.errors import UserError
from search.results.cell import cells_of
from search.results.fingerprint import digest
from search.results.journal import Journal
from search.strategy.request import Cells


def read_journal(desk: Desk) -> Journal:
    """The journal of the last tuning."""
    return Journal(desk.place.journal, digest(read_identity(desk.place)))


def read_cells(desk: Desk) -> tuple[Journal, Cells]:
    """The journal of the last tuning, and the cells of the collective."""
    catalogue, journal = desk.catalogue, read_journal(desk)
    _, settings = desk.configured()
    variants = {
        catalogue.variant(record.label)
        for record in journal.records
        if record.label and record.workload.collective == catalogue.collective.name
    }
    known = sorted(variants, key=lambda variant: variant.simplicity)
    cells = cells_of(journal.records, known)
    native = catalogue.native
    if not any(native in cell.rounds for cell in cells.values()):
        raise UserError(
            "nothing is measured yet: run ./configure or 'make tune', with enough --time-limit="
        )
    return journal, {key: cell for key, cell in cells.items() if key.ranks in settings.ranks}
