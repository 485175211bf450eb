"""A runner that answers a strategy from a recorded journal: what it would have found and cost."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable

from search.catalogue.algorithm import Variant
from search.results.journal import Place, Record, rounds_of
from search.results.samples import Sample
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
        self._spent: dict[tuple[Place, str], list[float]] = {}
        self._failures: dict[str, str] = {}
        self._waiting: dict[Place, list[int]] = {}
        self._numbers: dict[Place, int] = {}
        self._visited: set[tuple[Place, str]] = set()
        for record in records:
            if record.sample:
                key = (record.ranks, record.block), record.label
                self._spent.setdefault(key, []).append(record.sample.spent)
            elif record.failure is not None:
                self._failures[record.label] = record.failure
        for place, rounds in self._rounds.items():
            order = sorted(rounds)
            self._random.shuffle(order)
            self._waiting[place] = order
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
        place = wanted.ranks, wanted.block
        known = [v for v in wanted.variants if v.label not in self._failures]
        samples = self._take(place, [variant.label for variant in known])
        self._numbers[place] = self._numbers.get(place, -1) + 1
        outcomes: dict[Variant, Outcome] = {
            v: samples[v.label] if v in known else Failure(self._failures[v.label])
            for v in wanted.variants
        }
        return Answer(self._numbers[place], outcomes)

    def _take(self, place: Place, labels: list[str]) -> dict[str, Sample]:
        rounds = self._rounds[place]
        waiting = self._waiting[place]
        number = next((n for n in waiting if all(x in rounds[n] for x in labels)), None)
        if number is not None:
            waiting.remove(number)
            samples = {label: rounds[number][label] for label in labels}
        else:
            samples = {label: self._any(place, label) for label in labels}
        for label in samples:
            self.visits += 1
            first, *others = self._spent[place, label]
            is_new = (place, label) not in self._visited
            self.seconds += first if is_new or not others else statistics.median(others)
            self._visited.add((place, label))
        return samples

    def _any(self, place: Place, label: str) -> Sample:
        return self._random.choice(
            [samples[label] for samples in self._rounds[place].values() if label in samples]
        )
