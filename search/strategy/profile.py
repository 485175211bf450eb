"""What a program really called, as ATALL_STATS=FILE writes it: ranks, blocks, calls, seconds.

To tune for exactly that is Vadhiyar, Fagg and Dongarra's advice (section 4.1).
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from search.errors import UserError

LINE = re.compile(r"(\d{1,9}) (\d{1,18}) (\d{1,18}) (\d+\.\d+) (.+)")
MOST_BLOCKS = 24
"""Of more blocks on as many ranks those count that took most time, the smallest and the largest."""
LARGEST = 1 << 30


def read_profile(path: Path, most_ranks: int) -> dict[int, tuple[int, ...]]:
    """The blocks (bytes to each peer) that are worth tuning, by number of ranks."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read profile {path}: {error}") from error
    seconds: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            raise UserError(
                f"{path}:{number}: 'ranks bytes calls seconds served-by' is expected, "
                "as ATALL_STATS=FILE writes it"
            )
        ranks, block = int(match[1]), int(match[2])
        if ranks > most_ranks:
            raise UserError(
                f"{path}:{number}: {ranks} ranks were used, but the cluster has {most_ranks} slots"
            )
        if ranks > 1 and 0 < block <= LARGEST:
            seconds[ranks][block] += float(match[4])
    if not seconds:
        raise UserError(f"{path}: no call with data on several ranks is in it")
    return {ranks: _worth(mine) for ranks, mine in sorted(seconds.items())}


def _worth(seconds: dict[int, float]) -> tuple[int, ...]:
    """The blocks that count."""
    ends = {min(seconds), max(seconds)}
    costliest = sorted(seconds, key=lambda block: (block not in ends, -seconds[block]))
    return tuple(sorted(costliest[:MOST_BLOCKS]))
