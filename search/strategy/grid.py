"""Fewer sizes: a coarse grid first, and what is between two of its sizes only where their winners
differ; else what serves both serves it (Vadhiyar, Fagg and Dongarra, section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from search.strategy.request import Search

STEP = 10
"""Sizes of the coarse grid differ by no more than this factor, where there are sizes between."""


def coarse(sizes: Sequence[int]) -> list[int]:
    """The first, the last, both sides of each jump, and downwards from the last as few as leave no
    gap beyond STEP that could be smaller: what is expensive at the upper end is thin."""
    chosen = [sizes[-1]]
    for block, following in zip(sizes[-2::-1], [*sizes[-3::-1], 0]):
        is_jump = chosen[-1] == block + 1 or block == following + 1
        if is_jump or following * STEP < chosen[-1]:
            chosen.append(block)
    return chosen[::-1]


def bisect(
    sizes: Sequence[int],
    searched: Sequence[int],
    agree: Callable[[int, int], bool],
    search: Callable[[int], Search],
) -> Search:
    """Search between the sizes that were ``searched``, halfway first, until neighbours agree."""
    blocks = sorted(searched)
    waiting = list(zip(blocks, blocks[1:]))
    while waiting:
        low, high = waiting.pop(0)
        inside = [block for block in sizes if low < block < high]
        if inside and not agree(low, high):
            middle = min(inside, key=lambda block: abs(math.log(block * block / (low * high))))
            yield from search(middle)
            waiting += [(low, middle), (middle, high)]
