"""Every variant at every size, so many times: what other strategies are judged by."""

from __future__ import annotations

from search.strategy.cell import Cell
from search.strategy.request import Cells, Search, Task, play

ROUNDS = ((12 << 10, 20), (1 << 62, 9))
"""Rounds up to each block, fewer where calls are longer as in Faraj and Yuan, section 5, but never
fewer than an interval of the median needs."""


def exhaustive(cells: Cells, task: Task) -> Search:
    """Fill ``cells``; nothing is given up, and no slot cuts a cell short."""
    for block in task.sizes:
        cell = cells.setdefault((task.ranks, block), Cell(task.ranks, block))
        alive = task.at(block)
        for _ in range(next(rounds for most, rounds in ROUNDS if block <= most)):
            alive = yield from play(cell, alive)
