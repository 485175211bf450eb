"""Ratios over several launches of a job: one estimator, with an interval of its own.

The medians of two launches of the same job differ by more than the calls of either let one expect
(Hunold and Carpen-Amarie, ReproMPI). So a ratio is the mean of its launches' medians, in
logarithms, and its interval has two parts: how well each launch knows its median, by order
statistics, and how far launches are apart. The parts are joined as Zou and Donner do (MOVER,
2008), each side by itself, since calls that wait for time-outs are on one side only. Few launches
tell little of how far they are apart: what all ratios of a table show counts, too (Smyth's
moderated variance, 2004).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import cache

from scipy.stats import binom, norm, t

from search.results.samples import CONFIDENCE, Interval

USUAL_SPREAD = 0.02
"""Standard deviation of a ratio's logarithm from launch to launch, where nothing tells it."""
LEAST_SPREAD = 0.01
TELLING = 3
"""Calls of a launch from which on it tells how far launches are apart."""
PRIOR_LAUNCHES = 4
"""What all ratios show counts as much as so many more launches of one."""

Launches = Sequence[Sequence[float]]
"""The ratios of calls timed together, launch by launch."""


def ratio_of(
    launches: Launches, spread: float = USUAL_SPREAD, confidence: float = CONFIDENCE
) -> Interval:
    """A ratio with its interval, of at least one launch; ``spread`` is how far the logarithms of
    ratios are apart from launch to launch elsewhere in the table (a standard deviation)."""
    parts = [_of_launch(launch, confidence) for launch in launches if launch]
    count = len(parts)
    middle = statistics.mean(m for m, _, _ in parts)
    freedom = PRIOR_LAUNCHES + count - 1
    own = (count - 1) * _between(parts, confidence)
    between = math.sqrt((PRIOR_LAUNCHES * spread**2 + own) / freedom / count)
    apart = _students(confidence, freedom) * between
    below, above = (math.hypot(*(part[side] for part in parts)) / count for side in (1, 2))
    return Interval(
        math.exp(middle - math.hypot(below, apart)),
        math.exp(middle),
        math.exp(min(middle + math.hypot(above, apart), 700.0)),
    )


def spread_of(table: Iterable[Launches]) -> float:
    """How far the ratios of a table are apart from launch to launch: the middle one of those that
    were seen in several."""
    several = [
        [_of_launch(launch, CONFIDENCE) for launch in one if len(launch) >= TELLING]
        for one in table
    ]
    found = [math.sqrt(_between(parts, CONFIDENCE)) for parts in several if len(parts) > 1]
    return max(LEAST_SPREAD, statistics.median(found)) if found else USUAL_SPREAD


def _between(parts: Sequence[tuple[float, float, float]], confidence: float) -> float:
    """The variance of launches beyond what their own intervals explain."""
    if len(parts) < 2:
        return 0.0
    quantile = _normal(confidence)
    within = statistics.mean(((below + above) / 2 / quantile) ** 2 for _, below, above in parts)
    return max(0.0, statistics.variance(m for m, _, _ in parts) - within)


def _of_launch(ratios: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """The median of logarithms, and how far the ends of its interval are below and above it."""
    ordered = sorted(math.log(ratio) for ratio in ratios)
    if len(ordered) == 1:  # it says nothing of its error
        return ordered[0], math.inf, math.inf
    cut, stretch = _ends(len(ordered), confidence)
    middle = statistics.median(ordered)
    return middle, stretch * (middle - ordered[cut]), stretch * (ordered[-1 - cut] - middle)


@cache
def _normal(confidence: float) -> float:
    """So many standard deviations have that confidence on both sides."""
    return float(norm.ppf((1 + confidence) / 2))


@cache
def _students(confidence: float, freedom: int) -> float:
    """The same of few samples."""
    return float(t.ppf((1 + confidence) / 2, freedom))


@cache
def _ends(n: int, confidence: float) -> tuple[int, float]:
    """How many of at least two order statistics to cut at either end for a confidence; and, where
    so few have less of it, how many times wider the interval must be."""
    cut = max(0, int(binom.ppf((1 - confidence) / 2, n, 0.5)) - 1)
    covered = 1 - 2 * float(binom.cdf(cut, n, 0.5))
    return cut, max(1.0, _normal(confidence) / float(norm.ppf((1 + covered) / 2)))
