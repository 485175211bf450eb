"""A runner that answers a strategy from a recorded journal: what it would have found and cost."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable

from search.catalogue.algorithm import Variant
from search.results.record import Record, rounds_of
from search.results.samples import Sample
from search.results.workload import Workload
from search.strategy.request import Answer, Failure, Outcome, Request, Round, Search


class ReplayRunner:
    """Hands out the rounds of a journal in an order of chance, so that several replays differ.

    A round that is asked for comes from one that was recorded with all its variants; where none is
    left, each variant's samples are handed out again. The first visit to a variant at a block costs
    what it cost then, with verifying and warming up, later ones the median of the others.
    """

    def __init__(self, records: Iterable[Record], seed: int) -> None:
        self._random = random.Random(seed)
        records = list(records)
        self._rounds = rounds_of(records)
        self._spent: dict[tuple[Workload, str], list[float]] = {}
        self._failures: dict[str, str] = {}
        self._waiting: dict[Workload, list[int]] = {}
        self._numbers: dict[Workload, int] = {}
        self._visited: set[tuple[Workload, str]] = set()
        for record in records:
            if record.sample:
                key = record.workload, record.label
                self._spent.setdefault(key, []).append(record.sample.spent)
            elif record.failure is not None:
                self._failures[record.label] = record.failure
        for workload, rounds in self._rounds.items():
            order = sorted(rounds)
            self._random.shuffle(order)
            self._waiting[workload] = order
        self.visits = 0
        self.seconds = 0.0

    def run(self, search: Search) -> None:
        """Answer a strategy until it ends."""
        try:
            wanted = next(search)
            while True:
                wanted = search.send(self._answer(wanted))
        except StopIteration:
            return

    def _answer(self, wanted: Request) -> Answer:
        if not isinstance(wanted, Round):
            return Answer()
        workload = wanted.workload
        known = [v for v in wanted.variants if v.label not in self._failures]
        samples = self._take(workload, [variant.label for variant in known])
        self._numbers[workload] = self._numbers.get(workload, -1) + 1
        outcomes: dict[Variant, Outcome] = {
            v: samples[v.label] if v in known else Failure(self._failures[v.label])
            for v in wanted.variants
        }
        return Answer(self._numbers[workload], outcomes)

    def _take(self, workload: Workload, labels: list[str]) -> dict[str, Sample]:
        rounds = self._rounds[workload]
        waiting = self._waiting[workload]
        number = next((n for n in waiting if all(x in rounds[n] for x in labels)), None)
        if number is not None:
            waiting.remove(number)
            samples = {label: rounds[number][label] for label in labels}
        else:
            samples = {label: self._any(workload, label) for label in labels}
        for label in samples:
            self.visits += 1
            first, *others = self._spent[workload, label]
            is_new = (workload, label) not in self._visited
            self.seconds += first if is_new or not others else statistics.median(others)
            self._visited.add((workload, label))
        return samples

    def _any(self, workload: Workload, label: str) -> Sample:
        return self._random.choice(
            [samples[label] for samples in self._rounds[workload].values() if label in samples]
        )
