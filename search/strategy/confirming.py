"""Confirming: a launch of its own times the table as it would ship, at each row's ends and middle.

Who leads a search leads by luck, too. Here the variant of each row meets the library's own, its
runner-up and the neighbouring rows' variants again, interleaved; what is decided afterwards rests
on both launches. Rows that only arise from that are confirmed in their turn, against all that was
confirmed next to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from search.catalogue.algorithm import Variant
from search.results.cell import LEAST_PAIRS, Cell, between
from search.strategy.request import Cells, Relaunch, Search, Task, calls_seconds, play

USUAL_SHARE, MOST_SHARE = 0.5, 3.0
"""Of a cell's time budget, for a block: usually, and where SURE_ROUNDS take longer."""
SURE_ROUNDS, MOST_ROUNDS = 6, 20
"""Six that agree are no chance: an interval of 95 % can say so."""
GAP = 8
"""Blocks of a row that differ by more are confirmed halfway between, too."""


@dataclass(frozen=True)
class _Row:
    """Neighbouring blocks (bytes to each peer) that one variant serves."""

    variant: Variant
    blocks: tuple[int, ...]

    def points(self, between_too: bool) -> list[int]:
        """Its ends, and the middle if that is some way from them; ``between_too``: where nothing
        was timed so far, too."""
        low, high = self.blocks[0], self.blocks[-1]
        if high <= GAP * low:
            return sorted({low, high})
        middle = between(low, high)
        near = [block for block in self.blocks if middle / 2 <= block <= 2 * middle]
        chosen = min(near, key=lambda block: abs(block - middle), default=middle)
        return [low, chosen, high] if near or between_too else [low, high]


def confirming(cells: Cells, task: Task, winners: Sequence[tuple[int, Variant]]) -> Search:
    """Add rounds to ``cells`` in another launch where what serves a row has none yet; ``winners``
    has the variant that is to serve each measured block, smallest first."""
    rows = [
        _Row(variant, tuple(block for block, _ in group))
        for variant, group in groupby(winners, key=lambda pair: pair[1])
    ]
    native = task.variants[0]
    meetings = _meetings(rows, cells, task)
    if all(row.variant == native for row in rows) or not meetings:
        return
    yield Relaunch()
    for block, variants in sorted(meetings.items()):
        cell = task.cell(cells, block)
        fit = set(task.at(block)) | cell.rounds.keys()
        yield from _confirm(cell, [v for v in [native, *variants] if v in fit], task)


def _meetings(rows: Sequence[_Row], cells: Cells, task: Task) -> dict[int, dict[Variant, None]]:
    """Who meets the library's own, block by block, unless it did already: at a row's ends and
    middle its variant, the runner-up, the neighbouring rows' variants and what was confirmed next
    to there; the same at sizes between two rows that were not timed."""
    found: dict[int, dict[Variant, None]] = {}

    def meet(block: int, *variants: Variant) -> None:
        found.setdefault(block, {}).update(dict.fromkeys(v for v in variants if v != native))

    native = task.variants[0]
    for i, row in enumerate(rows):
        beside = [other.variant for other in (*rows[max(0, i - 1) : i], *rows[i + 1 : i + 2])]
        for block in row.points(task.between):
            cell = cells.get(task.workload(block))
            if cell and _has_confirmed(cell, row.variant):
                continue
            runner_up = _runner_up(cell, row.variant, native) if cell else []
            meet(block, row.variant, *runner_up, *beside, *_confirmed_beside(cells, task, block))
    for row, following in zip(rows, rows[1:]):
        low, high = row.blocks[-1], following.blocks[0]
        for block in task.sizes:
            if low < block < high:
                known = _confirmed_beside(cells, task, block)
                meet(block, *found.get(low, ()), *found.get(high, ()), *known)
    return found


def _has_confirmed(cell: Cell, variant: Variant) -> bool:
    """Whether rounds that confirm something were played with a variant."""
    return not cell.confirming.isdisjoint(cell.rounds.get(variant, ()))


def _confirmed_beside(cells: Cells, task: Task, block: int) -> list[Variant]:
    """What was confirmed at the next block on either side at which anything was."""
    known = sorted(cell.block for cell in task.measured(cells) if cell.confirming)
    beside = [*[b for b in known if b < block][-1:], *[b for b in known if b > block][:1]]
    mine = [cells[task.workload(b)] for b in beside]
    return [v for cell in mine for v in cell.variants if _has_confirmed(cell, v)]


def _runner_up(cell: Cell, winner: Variant, native: Variant) -> list[Variant]:
    """The best of the others, if there are any."""
    rivals = [v for v in cell.finalists if v not in (winner, native)]
    return [cell.best(rivals)] if rivals else []


def _confirm(cell: Cell, variants: Sequence[Variant], task: Task) -> Search:
    """Rounds until the time for a block is over."""
    alive, before = list(variants), cell.last
    for count in range(MOST_ROUNDS):
        spent = calls_seconds(
            sample
            for rounds in cell.rounds.values()
            for number, sample in rounds.items()
            if number > before
        )
        share = USUAL_SHARE if count >= SURE_ROUNDS else MOST_SHARE
        if not alive or (count >= LEAST_PAIRS and spent > share * task.budget):
            return
        alive = yield from play(cell, alive, confirms=True)
