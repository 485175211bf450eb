"""What measured cells say about another: which variants are predicted to be competitive there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from search.catalogue.algorithm import Variant
from search.results.cell import REQUEST_SECONDS, Cell

FAR = 64
"""Blocks that differ by this factor or more tell nothing of each other."""
TREND = 0.9
"""Blocks that tell more than this of each other are too close to show a trend."""
NOVELTY = 1.02
"""What a variant is assumed to lose against its nearest relative."""
STEEPEST = 5.0


class _Scores:
    """A cell's scores, worked out once: promises of many variants rest on them."""

    def __init__(self, cell: Cell) -> None:
        self.block = cell.block
        self.scores = {variant: cell.score(variant) for variant in cell.rounds}
        self.best = min(self.scores.values())
        again = [s for rounds in cell.rounds.values() for s in list(rounds.values())[1:]]
        self.calls = len(again[0].calls) if again else 1
        beside = [sample.spent - sum(sample.calls) for sample in again]
        self.overhead = max(REQUEST_SECONDS, statistics.median(beside or [0.0]))

    def loss(self, variant: Variant) -> float:
        """How many times slower than the best."""
        return self.scores[variant] / self.best


class Promises:
    """Of a moment in a search: the cells that have times, by block, and all sizes of the task."""

    def __init__(self, cells: Sequence[Cell], sizes: Sequence[int]) -> None:
        measured = sorted((cell for cell in cells if cell.rounds), key=lambda cell: cell.block)
        self._cells = [_Scores(cell) for cell in measured]
        self._jumps = [a for a, b in zip(sizes, sizes[1:]) if b == a + 1]

    def variants(self) -> set[Variant]:
        """Those that were timed anywhere."""
        return {variant for cell in self._cells for variant in cell.scores}

    def is_known(self, block: int) -> bool:
        """Whether any cell tells something of a block."""
        return any(self._weight(cell.block, block) > 0 for cell in self._cells)

    def of(self, variant: Variant, block: int) -> float:
        """Its time at a block as a multiple of the best one's, as far as other blocks tell: the
        less the farther they are."""
        known = [cell for cell in self._cells if variant in cell.scores]
        if not known:
            return self._of_relative(variant, block)
        below = [cell for cell in known if cell.block <= block]
        above = [cell for cell in known if cell.block > block]
        if below and above and self._weight(below[-1].block, above[0].block) > 0:
            least = min(cell.loss(variant) for cell in (below[-1], above[0]))
            line = _line(below[-1], above[0], variant, block)
            return math.sqrt(least * line)  # between them there may be a cliff
        nearest, *others = below[::-1] or above
        loss = nearest.loss(variant)
        trend = [cell for cell in others if 0 < self._weight(cell.block, nearest.block) < TREND]
        if trend:
            loss = math.sqrt(loss * _line(nearest, trend[0], variant, block))
        return math.pow(max(1.0, loss), self._weight(nearest.block, block))

    def _of_relative(self, variant: Variant, block: int) -> float:
        """The promise of the most similar one of the same body that is known, else of the best of
        the same kind; 1 if none is."""
        kin = [v for v in self.variants() if v.kind == variant.kind]
        mine = [v for v in kin if v.body == variant.body]
        if mine:
            return NOVELTY * self.of(min(mine, key=lambda v: _unlike(v, variant)), block)
        return NOVELTY * min(self.of(v, block) for v in kin) if kin else 1.0

    def _weight(self, one: int, other: int) -> float:
        """How much one block tells of another: 1 if they are the same, 0 if they are FAR or the
        time of a message jumps between them."""
        low, high = sorted((one, other))
        if any(low <= jump < high for jump in self._jumps):
            return 0.0
        return max(0.0, 1.0 - math.log(high / low) / math.log(FAR))

    def visit(self, block: int, loss: float = 1.0) -> float:
        """Seconds of a visit to a variant so many times as slow as the best, as the nearest block
        tells: its calls, and what comes with them."""
        if not self._cells:
            return REQUEST_SECONDS
        nearest = min(self._cells, key=lambda cell: abs(math.log(cell.block / block)))
        return nearest.overhead + nearest.calls * loss * self.seconds(block)

    def seconds(self, block: int) -> float:
        """Of the best variant at a block, on the line through the two nearest below."""
        known = [(cell.block, cell.best) for cell in self._cells]
        below = [point for point in known if point[0] <= block]
        if not below:
            return known[0][1] if known else 0.0
        (size, seconds), *others = below[::-1]
        if not others:
            return seconds * math.sqrt(block / size)
        slope = max(0.0, seconds - others[0][1]) / (size - others[0][0])
        return seconds + slope * (block - size)


def _line(one: _Scores, other: _Scores, variant: Variant, block: int) -> float:
    """The loss at a block on the line through those of two cells; logarithms of both."""
    x, y = math.log(one.block), math.log(one.loss(variant))
    slope = (math.log(other.loss(variant)) - y) / (math.log(other.block) - x)
    return max(1.0, math.exp(min(y + slope * (math.log(block) - x), STEEPEST)))


def _unlike(one: Variant, other: Variant) -> tuple[float, tuple[object, ...]]:
    """How different the numbers of two variants of a body are; of equals the simpler first."""
    pairs = zip(one.values, other.values)
    return sum(abs(math.log1p(a) - math.log1p(b)) for (_, a), (_, b) in pairs), one.simplicity
