"""The three steps of Faraj and Yuan, section 5.

The first, making the topology's own schedule, precedes the search. The second times every variant
at each size; the third looks for the cut-off where neighbouring sizes have different winners.
"""

from __future__ import annotations

from collections.abc import Sequence

from search.catalogue.algorithm import Variant
from search.results.cell import Cell, between, choose
from search.results.samples import median_interval
from search.strategy.elimination import GROSS_ROUNDS, not_grossly_slow
from search.strategy.request import Cells, Search, Task, calls_seconds, play

CLOSE = 1.10
"""A cut-off is known well enough when its interval's ends differ by no more than this."""


def three_steps(cells: Cells, task: Task) -> Search:
    """Fill ``cells``: every variant at each size, then bisection where winners differ."""
    winners: dict[int, Variant] = {}
    incumbent: Variant | None = task.variants[0]
    for block in task.sizes:
        cell = task.cell(cells, block)
        yield from compare(cell, task.at(block), task)
        if cell.rounds:
            incumbent = winners[block] = choose(cell, incumbent)
    known = sorted(winners)
    waiting = list(zip(known, known[1:])) if task.between else []
    while waiting:
        low, high = waiting.pop(0)
        if winners[low] == winners[high] or high <= low * CLOSE or high - low < 2:
            continue
        middle = between(low, high)
        rivals = {winners[low], winners[high], task.variants[0]}
        cell = task.cell(cells, middle)
        yield from compare(cell, [v for v in task.at(middle) if v in rivals], task)
        if not cell.rounds:
            continue
        winners[middle] = choose(cell, winners[low])
        if not _tied(cell, winners[low], winners[high]):
            waiting += [(low, middle), (middle, high)]


def compare(cell: Cell, variants: Sequence[Variant], task: Task) -> Search:
    """Fill ``cell``: rounds of all variants until each is known well enough or plainly slow."""
    alive = list(variants)
    spent = 0.0
    for rounds in range(1, task.rules.most + 1):
        alive = yield from play(cell, alive)
        alive = not_grossly_slow(cell, alive)
        if not alive:
            return
        last = [cell.rounds[v][cell.last] for v in alive if cell.last in cell.rounds[v]]
        spent += calls_seconds(last)
        known = all(
            median_interval(cell.seconds(v)).half_width <= task.rules.tolerance for v in alive
        )
        if rounds >= task.rules.least and known:
            return
        if rounds >= GROSS_ROUNDS and spent > task.budget:
            return


def _tied(cell: Cell, one: Variant, other: Variant) -> bool:
    """Whether both are there and the noise allows no order between them."""
    if one not in cell.rounds or other not in cell.rounds:
        return False
    ratio = cell.ratio(one, other)
    return ratio.low <= 1.0 <= ratio.high


NAMES = {"three-steps": three_steps}
