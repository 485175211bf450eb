"""Statistics of repeated timings: medians with order-statistic intervals, tails kept."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scipy.stats import binom

CONFIDENCE = 0.95
TAIL = 3.0
"""A call longer than this many medians is one of the tail: a retransmission time-out, mostly."""


@dataclass(frozen=True)
class Sample:
    """One call: seconds of its slowest rank, and TCP's troubles meanwhile on all hosts."""

    seconds: float
    retransmissions: int = 0
    timeouts: int = 0


@dataclass(frozen=True)
class Interval:
    """A median with its confidence interval."""

    low: float
    median: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0


@cache
def _interval_rank(n: int) -> int:
    """How many order statistics to cut at either end for CONFIDENCE (n=9: x2..x8)."""
    return max(0, int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)) - 1)


def median_interval(values: Sequence[float]) -> Interval:
    """Median and order-statistic interval of at least one value; no distribution is assumed."""
    ordered = sorted(values)
    cut = _interval_rank(len(ordered))
    return Interval(ordered[cut], statistics.median(ordered), ordered[-1 - cut])


def score(samples: Sequence[Sample]) -> float:
    """Seconds to expect: the median, and the tail's probability times its mean excess.

    The tail are calls beyond TAIL medians in which TCP sent something again: on Ethernet they
    are real, and what is trimmed here is paid by the application. Other long calls are this
    machine's noise, which the median bears.
    """
    median = statistics.median(sample.seconds for sample in samples)
    excess = [
        sample.seconds - median
        for sample in samples
        if sample.seconds > TAIL * median and sample.retransmissions + sample.timeouts > 0
    ]
    return median + sum(excess) / len(samples)


def ratio_interval(slower: Sequence[float], faster: Sequence[float]) -> Interval:
    """Ratio of two variants timed in the same rounds, pair by pair, so that drift cancels."""
    return median_interval([a / b for a, b in zip(slower, faster)])
