"""Descent over numbers: MGD and SMGD of Vadhiyar, Fagg and Dongarra, section 4.2.

A line is a method (an algorithm with all else bound) with the values of one number, the largest
first; of segments the whole block is the largest. Its times fall steeply and then rise towards
small values, with several minima. Each value is timed by itself, by few calls; what the lines end
at is then compared in common rounds, since single times would let noise decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from search.catalogue.algorithm import Body, Variant
from search.results.cell import Cell, choose
from search.strategy.grid import bisect, coarse
from search.strategy.request import Cells, Search, Task, play
from search.strategy.three_steps import compare

POINT_ROUNDS = 3
"""Visits by which a value is judged."""
BEYOND = 2
"""So many values in a row that are no better end a descent: it looks past the first minimum."""
THRESHOLD = 2.0
"""Lines whose next value is predicted to be so many times slower than the best are pruned by SMGD;
of their largest values alone nothing is predicted, a chain's is the worst and its best the best."""
CONTENDERS = 1.3
"""What a line ends at is compared with others if it is no slower than the best by more."""


@dataclass
class Line:
    """Variants from the largest value of their number on, and the scores of those timed so far."""

    variants: Sequence[Variant]
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Its current optimum."""
        return min(self.seconds)

    @property
    def winner(self) -> Variant:
        """Where that is."""
        return self.variants[self.seconds.index(self.best)]

    @property
    def is_open(self) -> bool:
        """Whether there are values left, and hope for one that is better."""
        since = len(self.seconds) - 1 - self.seconds.index(self.best)
        return len(self.seconds) < len(self.variants) and since < BEYOND

    @property
    def predicted(self) -> float:
        """The next time, if it changes as it did last; 0 where that is not known yet."""
        if len(self.seconds) < 2:
            return 0.0
        before, last = self.seconds[-2:]
        return last * last / before


def mgd(cells: Cells, task: Task) -> Search:
    """Modified gradient descent: every line to its end."""
    yield from _each_block(cells, task, _descend_all)


def smgd(cells: Cells, task: Task) -> Search:
    """Scanning modified gradient descent: all lines at their largest value, then a step at a time
    of the one that promises most."""
    yield from _each_block(cells, task, _scan)


def lines_of(variants: Sequence[Variant]) -> list[Line]:
    """The lines that variants form, each along the number of its algorithm that has most values."""
    counts: dict[tuple[Body, str], set[int]] = {}
    for variant in variants:
        for name, value in variant.values:
            if variant.named(name) is None:
                counts.setdefault((variant.body, name), set()).add(value)
    groups: dict[tuple[object, ...], list[Variant]] = {}
    for variant in variants:
        mine = [name for name, _ in variant.values if (variant.body, name) in counts]
        along = max(mine, key=lambda name: len(counts[variant.body, name]), default="")
        rest = tuple(pair for pair in variant.values if pair[0] != along)
        groups.setdefault((variant.body, along, rest), []).append(variant)
    return [
        Line(sorted(group, key=lambda v: _size(v, str(along)), reverse=True))
        for (_, along, _), group in groups.items()
    ]


def _size(variant: Variant, name: str) -> float:
    """How large a value is; a segment of 0 is the whole block."""
    value = dict(variant.values).get(name, 0)
    return float("inf") if name == "segment" and value == 0 else value


Walk = Callable[[Cell, "list[Line]"], Search]


def _each_block(cells: Cells, task: Task, walk: Walk) -> Search:
    """Descend along the grid, then between sizes whose winners differ."""

    def agree(low: int, high: int) -> bool:
        pair = [cells[task.workload(block)] for block in (low, high)]
        return not all(cell.rounds for cell in pair) or len({choose(c, None) for c in pair}) == 1

    grid = coarse(task.sizes)
    for block in grid:
        yield from _search(cells, task, block, walk)
    yield from bisect(task.sizes, grid, agree, lambda block: _search(cells, task, block, walk))


def _search(cells: Cells, task: Task, block: int, walk: Walk) -> Search:
    """Descend at one size, then compare what the best lines end at, and the library's own."""
    cell = task.cell(cells, block)
    lines = lines_of(task.at(block))
    yield from walk(cell, lines)
    ends = [line for line in lines if line.seconds]
    best = min((line.best for line in ends), default=0.0)
    last = [line.winner for line in ends if line.best <= CONTENDERS * best]
    yield from compare(cell, list(dict.fromkeys([task.variants[0], *last])), task)


def _descend_all(cell: Cell, lines: list[Line]) -> Search:
    for line in lines:
        yield from _step(cell, line)
        while line.seconds and line.is_open:
            yield from _step(cell, line)


def _scan(cell: Cell, lines: list[Line]) -> Search:
    for line in lines:
        yield from _step(cell, line)
    while True:
        known = [line for line in lines if line.seconds]
        best = min((line.best for line in known), default=0.0)
        hopeful = [x for x in known if x.is_open and x.predicted <= THRESHOLD * best]
        if not hopeful:
            return
        yield from _step(cell, min(hopeful, key=lambda line: (line.predicted, line.best)))


def _step(cell: Cell, line: Line) -> Search:
    """Time the next value of a line; what fails ends it."""
    variant = line.variants[len(line.seconds)]
    for _ in range(POINT_ROUNDS):
        alive = yield from play(cell, [variant])
        if not alive:
            line.variants = line.variants[: len(line.seconds)]
            return
    line.seconds.append(cell.score(variant))


NAMES = {"mgd": mgd, "smgd": smgd}
