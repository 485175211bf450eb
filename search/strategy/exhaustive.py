"""Every variant at every size, so many times: what other strategies are judged by."""

from __future__ import annotations

from search.strategy.request import Cells, Search, Task, play

SHORT = 12 << 10
MORE = 2.2
"""Blocks up to SHORT have MORE times as many rounds as longer ones, which have the effort's least
(Faraj and Yuan, section 5, have them so), never fewer than an interval of the median needs."""


def exhaustive(cells: Cells, task: Task) -> Search:
    """Fill ``cells``; nothing is given up, and no time budget cuts a cell short."""
    for block in task.sizes:
        cell = task.cell(cells, block)
        alive = task.at(block)
        least = task.rules.least
        for _ in range(round(MORE * least) if block <= SHORT else least):
            alive = yield from play(cell, alive)


NAMES = {"exhaustive": exhaustive}
