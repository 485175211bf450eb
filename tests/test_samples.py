import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.measure.probe import find_jumps
from search.results.samples import (
    Sample,
    enough_to_reject,
    holm,
    lossy,
    median_interval,
    modes,
    score,
    sign_test,
    sits_on_ticks,
)

times = st.lists(st.floats(1e-6, 10), min_size=1, max_size=60)


@pytest.mark.parametrize(("n", "low", "high"), [(9, 2, 8), (20, 6, 15), (50, 18, 33), (1, 1, 1)])
def test_intervals_are_the_order_statistics_of_the_binomial(n, low, high):
    interval = median_interval([float(i) for i in range(1, n + 1)])
    assert (interval.low, interval.high) == (low, high)


@given(times)
def test_the_median_lies_in_its_interval(values):
    interval = median_interval(values)
    assert interval.low <= interval.median <= interval.high


def test_time_outs_count_and_noise_does_not():
    body = [Sample((0.005,))] * 99
    hit = Sample((0.205,), ((3, 1),), 1)
    assert score([*body, hit]) == pytest.approx(0.005 + 0.2 / 100, rel=1e-2)
    assert score([*body, Sample((0.205,))]) == 0.005
    assert lossy([*body, hit]) == (1, 99)


def test_who_sends_again_is_at_risk():
    """A few calls that lost segments without a stall do not show that there is none."""
    lossy = [Sample((0.005,), ((0, 2), (1, 2)))] * 10
    expected = 0.2 * (1 - math.exp(-0.015 * 4))
    assert score(lossy) == pytest.approx(0.005 + expected * 20 / 30)
    assert score(lossy * 100) == pytest.approx(0.005 + expected * 20 / 1020)
    assert score([Sample((0.005,))] * 99 + lossy[:1]) == pytest.approx(0.005, rel=0.05)


def test_every_call_of_a_visit_counts_for_the_tail():
    visits = [Sample((0.005, 0.005, 0.005))] * 9 + [Sample((0.005, 0.305, 0.005), ((0, 2),), 1)]
    assert visits[-1].seconds == 0.005
    assert score(visits) == pytest.approx(0.005 + 0.3 / 30, rel=1e-2)


@pytest.mark.parametrize(("candidates", "blocks"), [(10, 11), (25, 13), (100, 15)])
def test_blocks_that_let_holm_reject(candidates, blocks):
    """So many are enough for so many candidates at 1 %, as usual two-sided; one-sided one less."""
    assert blocks - 1 <= enough_to_reject(candidates, 0.01) <= blocks
    assert sign_test([2.0] * enough_to_reject(candidates, 0.01)) <= 0.01 / candidates


def test_holm_rejects_step_by_step():
    assert holm([0.004, 0.9, 0.03, 0.011], 0.05) == [True, False, False, True]
    assert holm([0.02, 0.02, 0.02], 0.05) == [False] * 3


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_rejects_no_less_than_bonferroni_and_never_the_larger_first(probabilities):
    rejected = holm(probabilities, 0.05)
    for p, no in zip(probabilities, rejected):
        assert no or p > 0.05 / len(probabilities)
        assert not no or all(r for q, r in zip(probabilities, rejected) if q < p)


def test_two_modes_are_told_from_noise():
    chance = random.Random(1)
    one = [0.010 * (1 + 0.05 * chance.random()) for _ in range(20)]
    other = [0.210 * (1 + 0.05 * chance.random()) for _ in range(10)]
    low, high = modes([*one, *other])
    assert 0.010 < low < 0.011
    assert 0.210 < high < 0.221
    assert modes(one) is None
    assert modes([*one, 0.2]) is None  # one outlier is no mode
    assert modes([1.0, 2.0]) is None
    assert modes([0.01 * 1.05**i for i in range(30)]) is None  # wide, but without a gap


def test_waiting_for_the_scheduler_shows():
    chance = random.Random(1)
    assert sits_on_ticks([0.004 * chance.randrange(1, 9) + 2e-5 for _ in range(12)])
    assert not sits_on_ticks([chance.uniform(0.004, 0.036) for _ in range(40)])
    assert not sits_on_ticks([0.0001] * 40)


@pytest.mark.parametrize("threshold", [128, 1000, 16384, 65536])
def test_jumps_of_a_message_are_found_to_the_byte(threshold):
    def seconds(size):
        return 3e-5 + 1e-9 * size + (4e-4 if size > threshold else 0)

    assert find_jumps(seconds) == (threshold,)
    assert find_jumps(lambda size: 3e-5 + 1e-8 * size) == ()
