"""Strategies: what to time next. Each sees only requests and answers (request.py).

A file of this folder with ``NAMES`` has strategies, by the names that users choose them by.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module

from search.strategy.request import Cells, Search, Task

Strategy = Callable[[Cells, Task], Search]
DEFAULT = "racing"


def _found() -> dict[str, Strategy]:
    """All of them, the usual one first."""
    modules = (
        import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
    )
    named: dict[str, Strategy] = {}
    for module in modules:
        named |= getattr(module, "NAMES", {})
    return {name: named[name] for name in sorted(named, key=lambda name: (name != DEFAULT, name))}


STRATEGIES = _found()
