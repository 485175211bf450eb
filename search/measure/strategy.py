"""What to time next: the three steps of Faraj and Yuan, section 5.

A strategy knows no cluster. It is a generator that yields a Round (time these variants once each
at this block), is sent their Outcomes, and returns when it has seen enough. Whoever runs it, an
MPI job or a replay of recorded samples, it decides the same from the same samples.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

from search.algorithm import Variant
from search.measure.samples import Sample, median_interval, ratio_interval, score

SIZES = (1, 64, 256, *(1024 << i for i in range(9)))
"""Bytes to each peer: the sizes of Faraj and Yuan, section 5."""
QUICK_SIZES = (1, 64, 512, 2048, 8192, 32768, 131072)
GROSS = 1.5
"""A variant slower than this many times the fastest in each of GROSS_ROUNDS rounds is out."""
GROSS_ROUNDS = 3
EQUAL = 1.03
"""Variants whose times differ by no more than this are equal in practice."""
NOISY = 1.05
"""Beyond this a variant is not as good, however wide its interval is."""
CLOSE = 1.10
"""A cut-off is known well enough when its interval's ends differ by no more than this."""


@dataclass(frozen=True)
class Failure:
    """Why a variant has no time."""

    reason: str


Outcome = Union[Sample, Failure]


@dataclass(frozen=True)
class Round:
    """Time each of these variants once, in any order; block is bytes to each peer."""

    block: int
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Rules:
    """When a cell (all variants at one block) has been measured well enough."""

    least: int
    """rounds, unless a call takes a second"""
    most: int
    tolerance: float
    """half width of a median's interval, as a share of the median"""
    slot: float
    """seconds after which a cell ends, once it has the least"""


EFFORTS = {
    "quick": Rules(least=6, most=60, tolerance=0.05, slot=1.5),
    "normal": Rules(least=9, most=120, tolerance=0.025, slot=8.0),
}
REQUEST_SECONDS = 0.002
"""What a call costs beside its own time."""
LEAST_OF_LONG = 3
LONG = 1.0


@dataclass
class Cell:
    """What is known of the variants at one block: all samples, in rounds."""

    block: int
    samples: dict[Variant, list[Sample]] = field(default_factory=dict)
    failures: dict[Variant, str] = field(default_factory=dict)

    def seconds(self, variant: Variant) -> list[float]:
        return [sample.seconds for sample in self.samples[variant]]

    def score(self, variant: Variant) -> float:
        return score(self.samples[variant])

    def restricted(self, variants: Sequence[Variant]) -> Cell:
        """The same cell as if only these variants existed."""
        return Cell(self.block, {v: s for v, s in self.samples.items() if v in variants})


Search = Generator[Round, Mapping[Variant, Outcome], None]


def race(cell: Cell, variants: Sequence[Variant], rules: Rules) -> Search:
    """Fill ``cell``: rounds of all variants until each is known well enough or plainly slow."""
    alive = list(variants)
    spent, rounds = 0.0, 0
    while alive:
        outcomes = yield Round(cell.block, tuple(alive))
        rounds += 1
        for variant, outcome in outcomes.items():
            if isinstance(outcome, Failure):
                cell.failures[variant] = outcome.reason
                cell.samples.pop(variant, None)
                alive.remove(variant)
            else:
                cell.samples.setdefault(variant, []).append(outcome)
                spent += outcome.seconds + REQUEST_SECONDS
        alive = [v for v in alive if not _grossly_slow(cell, v, alive)]
        if not alive or rounds >= rules.most:
            return
        fastest = min(cell.score(v) for v in alive)
        least = LEAST_OF_LONG if fastest > LONG else rules.least
        known = all(median_interval(cell.seconds(v)).half_width <= rules.tolerance for v in alive)
        if rounds >= least and (known or spent > rules.slot):
            return


def _grossly_slow(cell: Cell, variant: Variant, alive: Sequence[Variant]) -> bool:
    """Slower than GROSS times the fastest in each of the last GROSS_ROUNDS rounds, and on the
    whole: where calls are short, noise alone makes three such rounds in a row sooner or later."""
    mine = cell.seconds(variant)[-GROSS_ROUNDS:]
    if len(mine) < GROSS_ROUNDS:
        return False
    if cell.score(variant) <= GROSS * min(cell.score(v) for v in alive):
        return False
    rivals = [cell.seconds(v)[-GROSS_ROUNDS:] for v in alive]
    return all(mine[i] > GROSS * min(r[i] for r in rivals) for i in range(GROSS_ROUNDS))


def choose(cell: Cell, incumbent: Variant | None) -> Variant:
    """The variant for this block: the incumbent stays unless something is faster by more than
    the noise allows; among those as good as the fastest the simplest is taken.

    Variants stand in ``cell.samples`` simplest first, the library's own before all.
    """
    most = max(len(s) for s in cell.samples.values())
    raced = [v for v, s in cell.samples.items() if len(s) >= most]
    best = min(raced, key=cell.score)
    if incumbent in cell.samples and _as_good(cell, incumbent, best):
        return incumbent
    return next(v for v in raced if _as_good(cell, v, best))


def _as_good(cell: Cell, variant: Variant, best: Variant) -> bool:
    if variant == best:
        return True
    if cell.score(variant) > NOISY * cell.score(best):
        return False
    return ratio_interval(cell.seconds(variant), cell.seconds(best)).low <= EQUAL


def three_steps(
    cells: dict[int, Cell], sizes: Sequence[int], variants: Sequence[Variant], rules: Rules
) -> Search:
    """Fill ``cells``: every variant at each of ``sizes``, then bisection where winners differ.

    (The first step, making the topology's own schedule, precedes the search.)
    """
    winners: dict[int, Variant] = {}
    incumbent: Variant | None = variants[0]
    for block in sizes:
        cell = cells.setdefault(block, Cell(block))
        yield from race(cell, variants, rules)
        if cell.samples:
            incumbent = winners[block] = choose(cell, incumbent)
    known = sorted(winners)
    waiting = list(zip(known, known[1:]))
    while waiting:
        low, high = waiting.pop(0)
        if winners[low] == winners[high] or high <= low * CLOSE or high - low < 2:
            continue
        middle = math.isqrt(low * high)
        rivals = [v for v in variants if v in (winners[low], winners[high], variants[0])]
        cell = cells.setdefault(middle, Cell(middle))
        yield from race(cell, rivals, rules)
        if not cell.samples:
            continue
        winners[middle] = choose(cell, winners[low])
        if not _tied(cell, winners[low], winners[high]):
            waiting += [(low, middle), (middle, high)]


def _tied(cell: Cell, one: Variant, other: Variant) -> bool:
    """Whether both are there and the noise allows no order between them."""
    if one not in cell.samples or other not in cell.samples:
        return False
    ratio = ratio_interval(cell.seconds(one), cell.seconds(other))
    return ratio.low <= 1.0 <= ratio.high
