"""Which variants of a cell need no more rounds: pure, from its samples."""

from __future__ import annotations

from collections.abc import Sequence

from search.catalogue.algorithm import Variant
from search.results.cell import EQUAL, Cell
from search.results.samples import enough_to_reject, holm, sign_test

GROSS = 1.5
"""A variant slower than this many times the fastest in each of GROSS_ROUNDS rounds is out."""
GROSS_ROUNDS = 3
ALPHA = 0.01
"""Probability that any of the paired tests of a round is wrong."""


def not_grossly_slow(cell: Cell, alive: Sequence[Variant]) -> list[Variant]:
    """Those that were not slower than GROSS times the fastest in each of the last GROSS_ROUNDS
    rounds, or are not on the whole: where calls are short, noise alone makes three such rounds in
    a row sooner or later."""
    if not alive:
        return []
    limit = GROSS * min(cell.score(variant) for variant in alive)
    latest = sorted(cell.rounds[alive[0]])[-GROSS_ROUNDS:]
    times = {v: [cell.rounds[v][n].seconds for n in latest if n in cell.rounds[v]] for v in alive}
    complete = [mine for mine in times.values() if len(mine) == GROSS_ROUNDS]
    if not complete:
        return list(alive)
    fastest = [min(column) for column in zip(*complete)]

    def is_slow(variant: Variant) -> bool:
        mine = times[variant]
        in_each = len(mine) == GROSS_ROUNDS and all(a > GROSS * b for a, b in zip(mine, fastest))
        return in_each and cell.score(variant) > limit

    return [variant for variant in alive if not is_slow(variant)]


def not_rejected(cell: Cell, alive: Sequence[Variant]) -> list[Variant]:
    """Those that paired tests, corrected by Holm, do not call slower than the best; what is slower
    for sure but maybe by less than EQUAL stays, too."""
    best = cell.best(alive)
    others = [variant for variant in alive if variant != best]
    pairs = {v: cell.pairs(v, best) for v in others}
    needed = enough_to_reject(len(others), ALPHA)
    if not others or min(len(ratios) for ratios in pairs.values()) < needed:
        return list(alive)
    rejected = holm([sign_test(pairs[v]) for v in others], ALPHA)
    out = {v for v, no in zip(others, rejected) if no and cell.ratio(v, best).low > EQUAL}
    return [variant for variant in alive if variant not in out]


def better_half(cell: Cell, alive: Sequence[Variant], least: int) -> list[Variant]:
    """Half of them, by score, but at least so many; the simplest and the plain form of the best, by
    which others are judged, stay unless they are grossly slow or rejected."""
    kept = max(least, (len(alive) + 1) // 2)
    best = sorted(alive, key=cell.score)[:kept]
    chosen = {*best, best[0].plain, min(alive, key=lambda v: v.simplicity)}
    return [variant for variant in alive if variant in chosen]


def undecided(cell: Cell, alive: Sequence[Variant]) -> list[Variant]:
    """Those of whom it is not known whether they are equal to the best in practice or slower."""
    best = cell.best(alive)
    ratios = {variant: cell.ratio(variant, best) for variant in alive if variant != best}
    return [variant for variant, ratio in ratios.items() if ratio.low < EQUAL < ratio.high]
