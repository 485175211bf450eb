"""What is known of all variants at one block on so many ranks, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from search.catalogue.algorithm import Variant
from search.results.launches import ratio_of
from search.results.record import Record, confirming_rounds, disturbed_rounds, rounds_of
from search.results.samples import (
    CONFIDENCE,
    Interval,
    Sample,
    median_interval,
    risk,
    score,
    stalls,
)
from search.results.workload import Workload

EQUAL = 1.03
"""Variants whose scores differ by no more than this are equal in practice."""
NOISY = 1.05
"""Beyond this a variant is not as good, however little the noise lets one tell."""
REQUEST_SECONDS = 0.002
"""What a visit costs beside its calls, at the least."""
BRINK, NEAR = 0.5, 2.0
STEADY = 0.02
"""Share of a score that may be expected of stalls which were not seen."""
LEAST_PAIRS = 3
"""Rounds in common from which on two variants are compared pair by pair."""
DRIFT = 1.05
DRIFT_ROUNDS = 18


@dataclass
class Cell:
    """Samples of variants at one block, by round; rounds that were void are not in it."""

    workload: Workload
    rounds: dict[Variant, dict[int, Sample]] = field(default_factory=dict)
    failures: dict[Variant, str] = field(default_factory=dict)
    is_part: bool = False
    """whether variants were taken out of it, for which others may have been given up"""
    above: Cell | None = None
    """the largest block that was measured up to NEAR times this one"""
    disturbed: frozenset[int] = frozenset()
    """rounds that something kept the hosts from, beyond what is usual there"""
    margin: float = EQUAL
    """so many times faster must be what is to be faster: more where what is measured is biased"""
    confirming: frozenset[int] = frozenset()
    """rounds that confirmed what the search found"""

    @property
    def ranks(self) -> int:
        """Of its workload."""
        return self.workload.ranks

    @property
    def block(self) -> int:
        """Of its workload: bytes to each peer."""
        return self.workload.block

    @property
    def variants(self) -> list[Variant]:
        """Those that have a time, simplest first: the catalogue's order."""
        return sorted(self.rounds, key=lambda v: v.simplicity)

    @property
    def last(self) -> int:
        """The number of the last round; -1 before any."""
        return max((n for rounds in self.rounds.values() for n in rounds), default=-1)

    @property
    def finalists(self) -> list[Variant]:
        """Those that were not given up: they took part in the last round, or were timed as often
        as one that did. Of a part of a cell all that have some rounds, since they were given up
        for what is not there."""
        last = self.last
        counts = {variant: len(self.rounds[variant]) for variant in self.variants}
        if self.is_part:
            least = min(LEAST_PAIRS, max(counts.values()))
        else:
            least = min(count for v, count in counts.items() if last in self.rounds[v])
        return [variant for variant, count in counts.items() if count >= least]

    def samples(self, variant: Variant) -> list[Sample]:
        """Those of a variant, in their order: that were not disturbed, if these are enough."""
        mine = self.rounds[variant]
        calm = [sample for n, sample in mine.items() if self._is_calm(n, sample)]
        return calm if len(calm) >= LEAST_PAIRS else list(mine.values())

    def _is_calm(self, number: int, *samples: Sample) -> bool:
        """Whether nothing disturbed these samples of a round."""
        return number not in self.disturbed and not any(sample.stalled for sample in samples)

    def seconds(self, variant: Variant) -> list[float]:
        """The time of each visit to a variant."""
        return [sample.seconds for sample in self.samples(variant)]

    def score(self, variant: Variant) -> float:
        """Seconds to expect of a variant. One that loses segments at the next block above stands on
        the brink: half of the stalls that are expected there count here, since a few calls in
        one launch do not show on which side it is."""
        return score(self.samples(variant), self.feared(variant))

    def risk(self, variant: Variant) -> float:
        """How many of these seconds are for stalls that were not seen."""
        return risk(self.samples(variant), self.feared(variant))

    def feared(self, variant: Variant) -> float:
        """Stalls a call that the next block above lets one fear."""
        if self.above is None or variant not in self.above.rounds:
            return 0.0
        return BRINK * stalls(self.above.samples(variant))

    def best(self, among: Iterable[Variant] | None = None) -> Variant:
        """The one with the best score."""
        return min(self.rounds if among is None else among, key=self.score)

    def pairs(self, one: Variant, other: Variant) -> list[float]:
        """Time of one over that of another in each round that they have in common."""
        return [ratio for *_, ratio in self._pairs(one, other)]

    def _pairs(self, one: Variant, other: Variant) -> list[tuple[bool, int, float]]:
        """Of each round in which both were timed in the same way: whether nothing disturbed it, its
        launch, and the time of one over that of another."""
        mine, others = self.rounds[one], self.rounds[other]
        both = ((n, mine[n], others[n]) for n in sorted(mine.keys() & others.keys()))
        return [
            (self._is_calm(n, a, b), a.launch, a.seconds / b.seconds)
            for n, a, b in both
            if bool(a.late) == bool(b.late)
        ]

    def launches(self, one: Variant, other: Variant, count_all: bool = False) -> list[list[float]]:
        """Their ratios, launch by launch: of the rounds that were least disturbed if these are
        enough, else, or to ``count_all``, of all."""
        pairs = self._pairs(one, other)
        kept = [pair for pair in pairs if pair[0]]
        if count_all or len(kept) < LEAST_PAIRS:
            kept = pairs
        found: dict[int, list[float]] = {}
        for _, launch, ratio in kept:
            found.setdefault(launch, []).append(ratio)
        return list(found.values())

    def claim(
        self, one: Variant, other: Variant, spread: float, confidence: float = CONFIDENCE
    ) -> Interval:
        """Time of one over that of another, for a decision: launches that differ by ``spread`` are
        in the interval, and what disturbed rounds would say. Without rounds in common all that
        is known of either."""
        launches = self.launches(one, other)
        if sum(map(len, launches)) < LEAST_PAIRS:
            return self.ratio(one, other)
        counted = ratio_of(launches, spread, confidence)
        every = ratio_of(self.launches(one, other, count_all=True), spread).median
        return Interval(min(counted.low, every), counted.median, max(counted.high, every))

    def ratio(self, one: Variant, other: Variant) -> Interval:
        """Time of one over that of another: pair by pair where they have rounds in common."""
        pairs = self.pairs(one, other)
        if len(pairs) >= LEAST_PAIRS:
            return median_interval(pairs)
        a, b = median_interval(self.seconds(one)), median_interval(self.seconds(other))
        return Interval(a.low / b.high, a.median / b.median, a.high / b.low)

    def searched(self) -> Cell:
        """The same cell as the search knew it, before anything was confirmed."""
        found = {
            variant: {n: sample for n, sample in mine.items() if n not in self.confirming}
            for variant, mine in self.rounds.items()
        }
        kept = {variant: mine for variant, mine in found.items() if mine}
        return replace(self, rounds=kept, confirming=frozenset())

    def is_confirmed(self, variant: Variant) -> bool:
        """Whether a variant was timed again where that was done; it was luck, else, as often as
        not."""
        return not self.confirming or not self.confirming.isdisjoint(self.rounds[variant])

    def restricted(self, variants: Sequence[Variant]) -> Cell:
        """The same cell as if only these variants existed."""
        kept = {v: rounds for v, rounds in self.rounds.items() if v in variants}
        return replace(self, rounds=kept, is_part=True)

    def drifted(self) -> bool:
        """Whether the conditions changed: what was timed most often is more than DRIFT slower
        or faster at the end than at the beginning, beyond its interval."""
        if not self.rounds:
            return False
        times = self.seconds(max(self.rounds, key=lambda v: len(self.rounds[v])))
        if len(times) < DRIFT_ROUNDS:
            return False
        third = len(times) // 3
        one, other = sorted(
            (median_interval(times[:third]), median_interval(times[-third:])),
            key=lambda i: i.median,
        )
        return other.median > DRIFT * one.median and other.low > one.high


def cells_of(records: Iterable[Record], variants: Sequence[Variant]) -> dict[Workload, Cell]:
    """Everything in a journal by workload; the variants keep their order.

    One that failed anywhere is nowhere in the cells. Void rounds are left out.
    """
    records = list(records)
    disturbed, confirming = disturbed_rounds(records), confirming_rounds(records)
    failed = {record.label for record in records if record.failure}
    cells: dict[Workload, Cell] = {}
    for workload, rounds in sorted(rounds_of(records).items()):
        cell = Cell(
            workload,
            disturbed=frozenset(disturbed.get(workload, ())),
            confirming=frozenset(confirming.get(workload, ())),
        )
        for variant in variants:
            mine = {
                n: taken[variant.label] for n, taken in rounds.items() if variant.label in taken
            }
            if mine and variant.label not in failed:
                cell.rounds[variant] = mine
        if cell.rounds:
            cells[workload] = cell
    return cells


def linked(cells: Iterable[Cell]) -> list[Cell]:
    """The same cells, all of as many ranks, by block, each with what is above it."""
    ordered = sorted(cells, key=lambda cell: cell.block)
    found = []
    for cell in ordered:
        near = (c for c in ordered if NEAR / 2 * cell.block < c.block <= NEAR * cell.block)
        largest = max(near, key=lambda c: c.block, default=None)
        found.append(replace(cell, above=largest))
    return found


def choose(cell: Cell, incumbent: Variant | None) -> Variant:
    """The variant for this block: of the finalists that are as good as the fastest those that
    hardly lose segments, if there are such; of these the incumbent, else the simplest."""
    finalists = cell.finalists
    best = cell.best(finalists)
    good = [v for v in finalists if as_good(cell, v, best)]
    steady = [v for v in good if cell.risk(v) <= STEADY * cell.score(v)] or good
    return incumbent if incumbent in steady else steady[0]


def as_good(cell: Cell, variant: Variant, best: Variant) -> bool:
    """Equal in practice, or as far as the noise lets one tell."""
    ratio = cell.score(variant) / cell.score(best)
    if ratio <= EQUAL:
        return True
    return ratio <= NOISY and cell.ratio(variant, best).low <= 1.0


def between(low: int, high: int) -> int:
    """The block halfway between two, as ratios go."""
    return math.isqrt(low * high)
