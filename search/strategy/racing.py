"""Racing: nearly what an exhaustive search finds, at a small part of its cost.

Sizes: a coarse grid first, upwards; then between two sizes only where their winners differ, in the
end at blocks that are not listed. At a size those enter that are predicted to be competitive, by
what they did at sizes near it, as many as the time budget affords. There the grossly slow leave
after three rounds, then half of the rest goes, parameters next to the best ones' join, and the last
few run on until paired tests or the time budget decide.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace

from search.catalogue.algorithm import Variant
from search.cluster.topology import FULL_FRAME
from search.results.cell import Cell, between, choose, linked
from search.strategy.elimination import (
    GROSS_ROUNDS,
    better_half,
    not_grossly_slow,
    not_rejected,
    undecided,
)
from search.strategy.grid import bisect, coarse
from search.strategy.promise import Promises
from search.strategy.request import (
    Answer,
    Cells,
    Relaunch,
    Request,
    Restart,
    Search,
    Task,
    calls_seconds,
    play,
)

MOST_OF_HEAT = 8
"""Rounds before half of the field goes, where calls are short; at least GROSS_ROUNDS."""
LEADERS = 3
"""So many go on when half of the field is sent home."""
FEWEST = 3
"""So many enter a cell, however long a call takes."""
HOPELESS = 1.8
"""Who is expected to take so many times as long as the best is not tried on the coarse grid."""
FIRST = 3
"""So many that a model ranks first enter a cell."""
CONTENDER = 1.3
"""The same between its sizes, and for a step in a parameter."""
EXPENSIVE = 1.1
"""The same where the fewest take up the time budget."""
ENTRY_SHARE, UNKNOWN_SHARE = 1.0, 2.0
"""Of a cell's time budget, for the first rounds of those that enter; and where nothing is known."""
COST_IN_ROUNDS = GROSS_ROUNDS + 2
"""What a newcomer costs at the least: its rounds, verifying and warming up."""
WIDE = 1.9
"""Between sizes that differ by so much there is room for a third winner."""
SETTLING_ROUNDS = 2
"""So many of the last few even where no time is left, unless a round takes half of the budget."""
CONFIRMING_ROUNDS = 5


def racing(cells: Cells, task: Task) -> Search:
    """Fill ``cells`` along the grid, then between sizes whose winners differ; then time the last
    few of each size again in as many more launches as the rules want."""
    for block in coarse(task.sizes):
        yield from _race(cells, task, block, HOPELESS)
    known = 0
    while known < _timed(cells, task):
        known = _timed(cells, task)
        yield from _bisect(cells, task)
        yield from _meet_neighbours(cells, task)
    if task.between:
        yield from _look_between(cells, task)
        yield from _meet_neighbours(cells, task)
    for _ in range(task.rules.launches - 1):
        yield Relaunch()
        for cell in task.measured(cells):
            last = cell.finalists
            for _ in range(CONFIRMING_ROUNDS):
                last = yield from play(cell, last)


def _bisect(cells: Cells, task: Task) -> Search:
    """Race at sizes between two whose winners differ."""
    yield from bisect(
        task.sizes,
        [cell.block for cell in task.measured(cells)],
        lambda low, high: _agree(cells, task, low, high),
        lambda block: _race(cells, task, block, CONTENDER),
    )


def _meet_neighbours(cells: Cells, task: Task) -> Search:
    """The winner of a size was not tried at the next one if it promised nothing when that came:
    there it meets the winner now, until no winner is new to a neighbour. Where rounds are expensive
    two forms of one algorithm need not meet."""
    is_news = True
    while is_news:
        is_news = False
        measured = linked(task.measured(cells))
        pairs = list(zip(measured, measured[1:]))
        for here, there in [*pairs, *((high, low) for low, high in pairs)]:
            guest, host = choose(here, None), choose(there, None)
            is_known = guest in there.rounds or guest in there.failures
            is_same = guest.body.algorithm == host.body.algorithm
            is_worth_it = not is_same or not _is_expensive(there.score(host), task)
            if not is_known and is_worth_it and guest in task.at(there.block):
                is_news = True
                yield from _meet(cells[there.workload], [host, guest], task)


def _is_expensive(seconds: float, task: Task) -> bool:
    """Whether a few calls of so many seconds take up the time budget."""
    return COST_IN_ROUNDS * FEWEST * seconds > task.budget


def _meet(cell: Cell, both: list[Variant], task: Task) -> Search:
    """Some rounds of two variants."""
    alive = yield from _heat(cell, both, task.budget)
    yield from _settle(cell, alive, task)


def _look_between(cells: Cells, task: Task) -> Search:
    """Where neighbouring sizes have different winners a third may serve what lies between them,
    the library's own for one: race there, for half a time budget, if that is not expensive."""
    half = replace(task, rules=replace(task.rules, budget=task.rules.budget / 2))
    blocks = sorted(cell.block for cell in task.measured(cells))
    for low, high in zip(blocks, blocks[1:]):
        middle = between(low, high)
        is_expensive = _is_expensive(_promises(cells, task).seconds(middle), task)
        if high >= WIDE * low and not is_expensive and not _agree(cells, task, low, high):
            yield from _race(cells, half, middle, CONTENDER)


def _timed(cells: Cells, task: Task) -> int:
    """How many variants have times, cell by cell: what new winners can come of."""
    return sum(len(cell.rounds) for cell in task.measured(cells))


def _promises(cells: Cells, task: Task) -> Promises:
    return Promises(task.measured(cells), task.sizes)


def _agree(cells: Cells, task: Task, low: int, high: int) -> bool:
    """Whether the same variant serves both sizes; or, where rounds are expensive, algorithm."""
    measured = {cell.block: cell for cell in linked(task.measured(cells))}
    one, other = measured.get(low), measured.get(high)
    if one is None or other is None:
        return True  # nothing works there: nothing to look for
    winner = choose(one, None)
    following = choose(other, winner)
    is_same = following.body.algorithm == winner.body.algorithm
    return winner == following or (is_same and _is_expensive(other.score(following), task))


def _race(cells: Cells, task: Task, block: int, worst: float) -> Search:
    """Fill the cell of a block."""
    near = linked(task.measured(cells))
    beside = [c for c in near if c.block < block][-1:] + [c for c in near if c.block > block][:1]
    winners = [choose(cell, None) for cell in beside]
    first = entrants(task, _promises(cells, task), block, worst, winners)
    cell = task.cell(cells, block)
    leaders = yield from _heats(cell, first, cells, task)
    yield from _settle(cell, leaders, task)
    if cell.drifted():
        yield Restart(task.workload(block), "times drifted by more than 5 %")
        cell.rounds.clear()
        again = [task.variants[0], *(v for v in leaders if v != task.variants[0])]
        for _ in range(GROSS_ROUNDS):  # one alone is settled at once
            again = yield from play(cell, again)
        yield from _settle(cell, again, task)


def entrants(
    task: Task, promises: Promises, block: int, worst: float, sure: Sequence[Variant] = ()
) -> list[Variant]:
    """Who enters a cell: the library's own, those that are ``sure`` to, what the model ranks first,
    the most promising of each algorithm, with and without synchronisation, of blocks beyond a frame
    one that is free of contention, and as many more as the time budget affords, simplest first;
    where rounds are expensive only the few most promising. Of variants that were never timed only
    the coarse ones, and those that the model ranks first; what is beside them comes later."""
    native, *rest = task.at(block)
    seen = {v for v in promises.variants() if v.fits(task.ranks, block, task.each)} - {native}
    seconds = promises.seconds(block)
    model = Model(task, rest, block)
    known = seen.union(model.first, (v for v in rest if v.is_coarse))
    least = {v: task.least(v, block) for v in known}
    best = max(seconds, min(least.values(), default=0.0)) if seconds else math.inf
    promise = {
        v: promises.of(v, block) if v in seen else model.promise(v) or promises.of(v, block)
        for v in known
        if least[v] <= HOPELESS * best and (v in sure or not model.is_hopeless(v))
    }
    ranked = sorted(promise, key=lambda v: (promise[v], v.simplicity))
    first = {v.kind: v for v in reversed(ranked)}
    budget = task.budget * (ENTRY_SHARE if promises.is_known(block) else UNKNOWN_SHARE)
    is_expensive = _is_expensive(seconds, task)
    worst = min(worst, EXPENSIVE) if is_expensive else worst
    # Where tokens cost more than blocks it promised little, but what is long must not contend.
    free = [v for v in ranked if block > FULL_FRAME and v.is_contention_free][:1]
    chosen = [native, *(v for v in ranked if v in sure or v in model.first)]
    others = [variant for variant in ranked if variant not in chosen]
    for variant in sorted(others, key=lambda v: (v not in free, v not in first.values())):
        budget -= COST_IN_ROUNDS * promises.visit(block, promise[variant])
        is_affordable = budget >= 0 or (variant in first.values() and not is_expensive)
        if len(chosen) <= FEWEST or (promise[variant] <= worst and is_affordable):
            chosen.append(variant)
    return sorted(chosen, key=lambda v: v.simplicity)


class Model:
    """What a model expects at a block; nothing where there is none."""

    def __init__(self, task: Task, variants: Sequence[Variant], block: int) -> None:
        expected = {variant: task.expects(variant, block) for variant in variants}
        self._expected = {v: expectation for v, expectation in expected.items() if expectation}
        ranked = sorted(self._expected, key=lambda v: self._expected[v].seconds)
        self.first = ranked[:FIRST]
        """those that it ranks first"""
        safe = [e.seconds for e in self._expected.values() if e.is_safe]
        self._bound = min(safe, default=math.inf)

    def promise(self, variant: Variant) -> float | None:
        """Its time as a multiple of the best one's."""
        expected = self._expected.get(variant)
        return expected.seconds / self._expected[self.first[0]].seconds if expected else None

    def is_hopeless(self, variant: Variant) -> bool:
        """Whether a variant would be far too slow even if no port lost anything, compared with one
        that cannot lose anything: of incast the model may know too little."""
        expected = self._expected.get(variant)
        return expected is not None and expected.least > HOPELESS * self._bound


def _heats(
    cell: Cell, newcomers: Sequence[Variant], cells: Cells, task: Task
) -> Generator[Request, Answer, list[Variant]]:
    """Rounds of the leaders with newcomers, as long as newcomers lead; returns the leaders."""
    leaders: list[Variant] = []
    while newcomers:
        alive = yield from _heat(cell, [*leaders, *newcomers], task.budget)
        if not alive:
            return []
        before, leaders = leaders, better_half(cell, alive, LEADERS)
        while len(leaders) > 2 * LEADERS:
            leaders = yield from play(cell, leaders)
            leaders = better_half(cell, leaders, LEADERS)
        is_new = not set(leaders) <= set(before)
        newcomers = _steps(cell, leaders, task, _promises(cells, task)) if is_new else []
    return leaders


def _heat(
    cell: Cell, alive: list[Variant], budget: float
) -> Generator[Request, Answer, list[Variant]]:
    """So many rounds as half of the time budget affords; returns who is not grossly slow."""
    for count in range(MOST_OF_HEAT):
        is_expensive = _spent(cell) + _round_seconds(cell) > budget / 2
        if not alive or (count >= GROSS_ROUNDS and is_expensive):
            break
        alive = yield from play(cell, alive)
    return not_grossly_slow(cell, alive)


def _steps(cell: Cell, leaders: Sequence[Variant], task: Task, promises: Promises) -> list[Variant]:
    """Parameters one step from the best ones', as many as the rest of the time budget affords."""
    best = sorted(leaders, key=cell.score)[:LEADERS]
    beside = dict.fromkeys(v for leader in best for v in task.beside(leader, cell.block))
    promise = {
        variant: promises.of(variant, cell.block)
        for variant in beside
        if variant not in cell.rounds and variant not in cell.failures
    }
    affordable = int((task.budget - _spent(cell)) / (COST_IN_ROUNDS * promises.visit(cell.block)))
    hopeful = [v for v in sorted(promise, key=promise.__getitem__) if promise[v] <= CONTENDER]
    return hopeful[: max(0, affordable)]


def _settle(cell: Cell, alive: Sequence[Variant], task: Task) -> Search:
    """Rounds of the last few until it is known who is as good as the best, or the time budget is
    used up."""
    alive = list(alive)
    for count in range(task.rules.most):
        is_expensive = count >= SETTLING_ROUNDS or _round_seconds(cell) > task.budget / 2
        if len(alive) < 2 or (is_expensive and _spent(cell) > task.budget):
            return
        if count >= task.rules.least - GROSS_ROUNDS and not undecided(cell, alive):
            return
        alive = yield from play(cell, alive)
        alive = not_rejected(cell, alive) if alive else []


def _spent(cell: Cell) -> float:
    """Seconds that a cell took."""
    return sum(sample.spent for rounds in cell.rounds.values() for sample in rounds.values())


def _round_seconds(cell: Cell) -> float:
    """Seconds that the calls of the last round took."""
    last = cell.last
    return calls_seconds(rounds[last] for rounds in cell.rounds.values() if last in rounds)


NAMES = {"racing": racing}
