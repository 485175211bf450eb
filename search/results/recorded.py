"""Samples that a journal holds already, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from search.results.journal import Place, Record, confirming_rounds, rounds_of
from search.results.samples import Sample

Taken = tuple[int, dict[str, Sample]]
"""A round's number, and its samples by label."""


class Recorded:
    """Rounds of a journal, handed out in the order in which they were made."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        self._rounds = rounds_of(records, restarted=True)
        self._confirming = confirming_rounds(records)
        self._cursor: dict[Place, int] = {}
        self._most: dict[Place, int] = {}
        self.failures: dict[str, str] = {}
        self.schemes: dict[Place, tuple[str, int]] = {}
        """how a cell was timed, and in how many calls a visit"""
        for record in records:
            place = record.ranks, record.block
            if record.sample:
                self._most[place] = max(self._most.get(place, -1), record.round)
                self.schemes.setdefault(place, (record.scheme, len(record.sample.calls)))
            elif record.failure is not None:
                self.failures[record.label] = record.failure

    def take(self, place: Place, labels: Sequence[str], confirms: bool = False) -> Taken | None:
        """The next round that has all of these, but for those that failed, and was asked for to
        confirm something, or not; None: measure it."""
        wanted = [label for label in labels if label not in self.failures]
        rounds = self._rounds.get(place, {})
        for number in sorted(rounds):
            is_alike = confirms == (number in self._confirming.get(place, ()))
            if number < self.seen(place) or not is_alike:
                continue
            if all(x in rounds[number] for x in wanted):
                self._cursor[place] = number + 1
                return number, {label: rounds[number][label] for label in wanted}
        return None

    def seen(self, place: Place) -> int:
        """All rounds that were handed out have smaller numbers."""
        return self._cursor.get(place, 0)

    def next_number(self, place: Place) -> int:
        """A number for a round that is measured now."""
        self._most[place] = self._most.get(place, -1) + 1
        self._cursor[place] = self._most[place] + 1
        return self._most[place]
