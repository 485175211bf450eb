"""Strategies: what to time next. Each sees only requests and answers (request.py)."""

from __future__ import annotations

from collections.abc import Callable

from search.strategy.descent import mgd, smgd
from search.strategy.exhaustive import exhaustive
from search.strategy.racing import racing
from search.strategy.request import Cells, Search, Task
from search.strategy.three_steps import three_steps

STRATEGIES: dict[str, Callable[[Cells, Task], Search]] = {
    "racing": racing,
    "three-steps": three_steps,
    "mgd": mgd,
    "smgd": smgd,
    "exhaustive": exhaustive,
}
