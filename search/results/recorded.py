"""Samples that a journal holds already, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from search.results.record import Record, confirming_rounds, rounds_of
from search.results.samples import Sample
from search.results.workload import Workload

Taken = tuple[int, dict[str, Sample]]
"""A round's number, and its samples by label."""


class Recorded:
    """Rounds of a journal, handed out in the order in which they were made."""

    def __init__(self, records: Iterable[Record]) -> None:
        records = list(records)
        self._rounds = rounds_of(records, restarted=True)
        self._confirming = confirming_rounds(records)
        self._cursor: dict[Workload, int] = {}
        self._most: dict[Workload, int] = {}
        self.failures: dict[str, str] = {}
        self.schemes: dict[Workload, tuple[str, int]] = {}
        """how a cell was timed, and in how many calls a visit"""
        for record in records:
            if record.sample:
                self._most[record.workload] = max(self._most.get(record.workload, -1), record.round)
                self.schemes.setdefault(record.workload, (record.scheme, len(record.sample.calls)))
            elif record.failure is not None:
                self.failures[record.label] = record.failure

    def take(
        self, workload: Workload, labels: Sequence[str], confirms: bool = False
    ) -> Taken | None:
        """The next round that has all of these, but for those that failed, and was asked for to
        confirm something, or not; None: measure it."""
        wanted = [label for label in labels if label not in self.failures]
        rounds = self._rounds.get(workload, {})
        for number in sorted(rounds):
            is_alike = confirms == (number in self._confirming.get(workload, ()))
            if number < self.seen(workload) or not is_alike:
                continue
            if all(x in rounds[number] for x in wanted):
                self._cursor[workload] = number + 1
                return number, {label: rounds[number][label] for label in wanted}
        return None

    def seen(self, workload: Workload) -> int:
        """All rounds that were handed out have smaller numbers."""
        return self._cursor.get(workload, 0)

    def next_number(self, workload: Workload) -> int:
        """A number for a round that is measured now."""
        self._most[workload] = self._most.get(workload, -1) + 1
        self._cursor[workload] = self._most[workload] + 1
        return self._most[workload]
