"""How calls are timed: by which scheme (probes/timing.h), and in how many calls a visit."""

from __future__ import annotations

LONG_IN_SKEWS = 20.0
"""A call longer than so many skews with which ranks leave a barrier may begin with one."""
SHORT = 0.003
SHORT_CALLS = 3
"""Calls in one visit to a variant, where they are shorter than SHORT seconds."""
LOOP_CALLS = ((3 << 10, 100), (12 << 10, 50), (96 << 10, 20), (384 << 10, 10), (1 << 62, 5))
"""Calls in a loop up to each block: Faraj and Yuan, section 5."""


def isolated(expected: float, skew: float) -> tuple[str, int]:
    """Scheme and calls a visit for calls of so many seconds, each timed alone."""
    scheme = "barrier" if expected > LONG_IN_SKEWS * skew else "round"
    return scheme, SHORT_CALLS if expected < SHORT else 1


def looped(block: int) -> tuple[str, int]:
    """Scheme and calls a visit for calls back to back."""
    return "loop", next(calls for most, calls in LOOP_CALLS if block <= most)
