"""Statistics of repeated timings: medians with order-statistic intervals, tails kept."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from scipy.stats import binom

CONFIDENCE = 0.95
TAIL = 3.0
"""A call longer than this many medians is one of the tail: a retransmission time-out, mostly."""
TIMEOUT = 0.2
"""Seconds of TCP's shortest retransmission time-out (Linux)."""
STALLS_A_SEGMENT = 0.015
"""Calls that stall for a time-out to expect for each segment sent again: both recorded
journals show 0.01 to 0.03 where calls lose few segments, and no more than one stall a call where
many."""
PRIOR_CALLS = 20
"""So many calls without a stall halve what is expected of further ones."""
MODES_APART = 1.2
LEAST_OF_MODE = 0.2
"""Two groups of times, each so large a share of them, whose medians differ so much are modes."""
TICK = 4e-3
"""Seconds of the scheduler's tick (250 Hz): times that sit on multiples of it waited for it."""


@dataclass(frozen=True)
class Sample:
    """One visit to a variant: its calls, one after the other, and TCP's troubles meanwhile.

    ``calls`` are seconds of the slowest rank; ``late``, where the clocks are synchronised, are
    seconds from the first rank's start to the last one's. ``resent`` holds, for each host
    that sent segments again, its first rank and how many; ``timeouts`` counts those of all hosts.
    ``spent`` is seconds that the visit cost in all, with verification and what is discarded;
    ``launch`` counts the jobs; ``timeout`` is TCP's shortest retransmission time-out there;
    ``stalled`` is seconds of the visit in which this machine, where all hosts are on it, stood
    still.
    """

    calls: tuple[float, ...]
    resent: tuple[tuple[int, int], ...] = ()
    timeouts: int = 0
    late: tuple[float, ...] = ()
    spent: float = 0.0
    launch: int = 0
    timeout: float = TIMEOUT
    stalled: float = 0.0

    @cached_property
    def seconds(self) -> float:
        """The visit's time: the median of its calls."""
        return statistics.median(self.calls)

    @property
    def retransmissions(self) -> int:
        """Segments that all hosts sent again."""
        return sum(count for _, count in self.resent)


def sample_of(
    answer: Mapping[str, Any], spent: float = 0.0, launch: int = 0, timeout: float = TIMEOUT
) -> Sample:
    """A sample of what the measuring job answers to ``time``; as it will be read from a journal, so
    that a search decides the same again."""
    return Sample(
        tuple(answer["seconds"]),
        tuple((host, count) for host, count in answer["resent"]),
        answer["timeouts"],
        tuple(answer.get("late", ())),
        round(spent, 4),
        launch,
        timeout,
    )


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


def score(samples: Sequence[Sample], feared: float = 0.0) -> float:
    """Seconds to expect: the median, the tail's probability times its mean excess, and the risk.

    The tail are calls beyond TAIL medians in which TCP sent something again: on Ethernet they
    are real, and what is trimmed here is paid by the application. Other long calls are this
    machine's noise, which the median bears. ``feared`` are stalls a call to expect for other
    reasons than segments that were lost.
    """
    median = statistics.median(sample.seconds for sample in samples)
    excess = [
        seconds - median
        for sample in samples
        for seconds in sample.calls
        if seconds > TAIL * median and (sample.resent or sample.timeouts)
    ]
    seen = sum(excess) / sum(len(sample.calls) for sample in samples)
    return median + seen + risk(samples, feared)


def stalls(samples: Sequence[Sample]) -> float:
    """Stalls a call to expect for the segments that were lost."""
    lost = sum(sample.retransmissions for sample in samples)
    return 1 - math.exp(-STALLS_A_SEGMENT * lost / sum(len(sample.calls) for sample in samples))


def risk(samples: Sequence[Sample], feared: float = 0.0) -> float:
    """Seconds a call for stalls that were too rare to be seen: a call that loses segments stands
    still sooner or later, and the fewer the calls, the less they show that it does not."""
    calls = sum(len(sample.calls) for sample in samples)
    feared = max(stalls(samples), feared)
    return samples[0].timeout * feared * PRIOR_CALLS / (PRIOR_CALLS + calls)


def lossy(samples: Sequence[Sample]) -> tuple[int, int]:
    """How many visits lost segments, and how many did not."""
    count = sum(bool(sample.resent or sample.timeouts) for sample in samples)
    return count, len(samples) - count


def sign_test(ratios: Sequence[float]) -> float:
    """Probability of so many ratios above 1, or more, were either side as likely."""
    above = sum(ratio > 1 for ratio in ratios)
    return float(binom.sf(above - 1, len(ratios), 0.5))


def holm(probabilities: Sequence[float], alpha: float) -> list[bool]:
    """Which of several tests reject, with all their errors together below ``alpha`` (Holm 1979)."""
    order = sorted(range(len(probabilities)), key=lambda i: probabilities[i])
    rejected = [False] * len(probabilities)
    for place, i in enumerate(order):
        if probabilities[i] > alpha / (len(order) - place):
            break
        rejected[i] = True
    return rejected


def enough_to_reject(tests: int, alpha: float) -> int:
    """Pairs with which a sign test can reject one of so many hypotheses (10: 10 to 11)."""
    return math.ceil(math.log2(max(tests, 1) / alpha))


def modes(values: Sequence[float]) -> tuple[float, float] | None:
    """The medians of two groups of times more than MODES_APART apart, if there are two.

    They are split at the widest gap (of logarithms) that leaves LEAST_OF_MODE on either side; the
    gap must be wider than either group without its outermost values.
    """
    ordered = sorted(values)
    least = max(2, math.ceil(LEAST_OF_MODE * len(ordered)))
    places = range(least, len(ordered) - least + 1)
    if not places:
        return None
    place = max(places, key=lambda i: ordered[i] / ordered[i - 1])
    low, high = ordered[:place], ordered[place:]
    gap = ordered[place] / ordered[place - 1]
    inside = max(low[-1] / low[len(low) // 10], high[-1 - len(high) // 10] / high[0])
    middle = statistics.median(low), statistics.median(high)
    apart = middle[1] / middle[0] > MODES_APART
    return middle if apart and gap > inside ** (1 / 2) and gap > 1.05 else None


def sits_on_ticks(values: Sequence[float], tick: float = TICK) -> bool:
    """Whether times are multiples of the scheduler's tick far too often to be by chance: ranks
    waited for a processor."""
    long = [value for value in values if value > tick * 0.9]
    close = sum(abs(value / tick - round(value / tick)) < 0.03 for value in long)
    return len(long) >= 9 and float(binom.sf(close - 1, len(long), 0.06)) < 1e-6
