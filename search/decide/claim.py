"""What may be claimed at a block, and the rows that earn their place: pure, from samples.

Noise must not buy a row. At each block the library's own stays unless another variant is faster
with confidence; body and tail of the times are judged apart. Then as few rows as do for all blocks:
a variant goes on to the next block unless it is known to be worse there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from scipy.stats import fisher_exact

from search.catalogue.algorithm import Variant
from search.results.cell import EQUAL, NOISY, Cell
from search.results.launches import spread_of
from search.results.samples import lossy

DOUBT = 0.05
"""Probability with which one seems to be better that is not; of all rivals together (Bonferroni)
where they challenge the library's own."""
ROW_COST = math.log(1.2)
"""What a row must save, all of its blocks together, in logarithms of seconds."""


def spread_in(cells: Iterable[Cell], native: Variant) -> float:
    """How far ratios to the library's own are apart from launch to launch."""
    return spread_of(
        cell.launches(native, variant)
        for cell in cells
        if native in cell.rounds
        for variant in cell.variants
        if variant != native
    )


def winners_of(cells: Sequence[Cell], native: Variant, spread: float) -> list[Variant]:
    """The variant of each of ``cells``, smallest block first, in as few rows as do. ``spread``: see
    ``spread_in``."""
    best: dict[Variant, tuple[float, tuple[Variant, ...]]] = {}
    winners = [fastest(cell, native, spread) for cell in cells]
    for i, cell in enumerate(cells):
        beside = winners[max(0, i - 1) : i + 2]
        least = min(best.values(), key=lambda row: row[0], default=(0.0, ()))
        following = {}
        for variant, loss in _losses(cell, winners[i], beside, native, spread).items():
            new_row = least[0] + ROW_COST, least[1]
            cost, path = min(best.get(variant, new_row), new_row, key=lambda row: row[0])
            following[variant] = cost + loss, (*path, variant)
        best = following
    return list(min(best.values(), key=lambda row: row[0])[1]) if best else []


def _losses(
    cell: Cell, winner: Variant, beside: Sequence[Variant], native: Variant, spread: float
) -> dict[Variant, float]:
    """Those that may serve a block, simplest first: the logarithm of what each may take over what
    the winner may, at the upper end of its interval unless it earned its place ``beside`` this
    block. Who was not confirmed where others were may serve it only if it did."""
    unit = at_worst(cell, winner, winner, spread)

    def seconds(variant: Variant) -> float:
        if variant in beside:
            return cell.score(variant)
        return at_worst(cell, variant, winner, spread)

    return {
        variant: math.log(seconds(variant) / unit)
        for variant in cell.variants
        if variant == winner
        or (
            (variant in beside or cell.is_confirmed(variant))
            and _is_good(cell, variant, winner, native, spread)
        )
    }


def _is_good(cell: Cell, variant: Variant, winner: Variant, native: Variant, spread: float) -> bool:
    """Whether a variant is as good as the winner as far as one can tell, and hardly worse, less so
    than the library's own. Where it is known to be slower than that but for its tail, or what is
    measured is biased, it must beat it, too."""
    if cell.score(variant) > (EQUAL if winner == native else NOISY) * cell.score(winner):
        return False
    if beats(cell, winner, variant, spread):
        return False
    if variant == native or native not in cell.rounds:
        return True
    is_doubtful = cell.margin > EQUAL or cell.claim(variant, native, spread).low > 1
    return not is_doubtful or beats(cell, variant, native, spread)


def fastest(cell: Cell, incumbent: Variant, spread: float) -> Variant:
    """Of those that beat the incumbent, or where that was not timed the simplest, the one with the
    least upper end of its interval, or the simplest that is as good as that; else the
    incumbent."""
    if incumbent not in cell.rounds:
        incumbent = cell.variants[0]
    rivals = [variant for variant in cell.finalists if variant != incumbent]
    winners = [v for v in rivals if beats(cell, v, incumbent, spread, DOUBT / len(rivals))]
    if not winners:
        return incumbent
    worst = {v: at_worst(cell, v, incumbent, spread) for v in winners}
    return next(v for v in winners if worst[v] <= EQUAL * min(worst.values()))


def beats(
    cell: Cell, challenger: Variant, incumbent: Variant, spread: float, doubt: float = DOUBT
) -> bool:
    """Whether a variant is faster by more than the cell's margin, tail and risk counted, and that
    is no luck: calls timed together say so, up to so much ``doubt``, or it loses segments in fewer
    of its visits for sure."""
    if cell.score(incumbent) <= cell.margin * cell.score(challenger):
        return False
    if cell.claim(incumbent, challenger, spread, 1 - doubt).low > 1:
        return True
    lost = [lossy(cell.samples(variant)) for variant in (incumbent, challenger)]
    return bool(fisher_exact(lost, alternative="greater")[1] < DOUBT)


def at_worst(cell: Cell, variant: Variant, reference: Variant, spread: float) -> float:
    """Seconds of a variant at the upper end of its interval, measured on the reference's, and its
    tail."""
    if variant == reference:
        return cell.score(variant)
    middle = statistics.median(cell.seconds(variant))
    tail = cell.score(variant) - middle
    unit = statistics.median(cell.seconds(reference))
    return unit * cell.claim(variant, reference, spread).high + tail


def indistinguishable(cell: Cell, variant: Variant, spread: float) -> list[Variant]:
    """Finalists of whom it is not known whether they or a variant are faster."""
    found = []
    for other in cell.finalists:
        if other != variant:
            ratio = cell.claim(other, variant, spread)
            if ratio.low <= 1 <= ratio.high:
                found.append(other)
    return found
