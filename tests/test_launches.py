"""The one estimator of ratios: what it says of launches that agree, and of launches that do not."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.results.launches import LEAST_SPREAD, USUAL_SPREAD, ratio_of, spread_of

ratios = st.lists(st.floats(0.1, 10), min_size=1, max_size=30)


@given(st.lists(ratios, min_size=1, max_size=5))
def test_the_ratio_is_in_its_interval(launches):
    found = ratio_of(launches)
    assert found.low <= found.median <= found.high


@given(st.lists(ratios, min_size=1, max_size=4))
def test_the_other_way_round_it_is_the_reciprocal(launches):
    one, other = ratio_of(launches), ratio_of([[1 / r for r in launch] for launch in launches])
    assert one.median == pytest.approx(1 / other.median)
    if other.high < 1e300:
        assert one.low == pytest.approx(1 / other.high)


def test_a_call_alone_says_nothing():
    alone = ratio_of([[2.0]])
    assert (alone.low, alone.median) == (0.0, pytest.approx(2.0))
    assert alone.high > 1e300


def test_what_agrees_within_launches_but_not_between_them_is_not_sure():
    """Medians of 0.9, 1.0 and 1.3, each for sure: the ratio is not known to be above 1."""
    apart = ratio_of([[0.9] * 20, [1.0] * 20, [1.3] * 20])
    assert apart.low < 1 < apart.high
    together = ratio_of([[1.05, 1.06, 1.07] * 7] * 3)
    assert together.low > 1


def test_stalls_widen_only_the_side_they_are_on():
    found = ratio_of([[1.2] * 14 + [20.0] * 6])
    assert found.low > 1.1
    assert found.high > 5


def test_few_calls_make_wide_intervals():
    assert ratio_of([[1.0, 1.1, 1.2]]).low < ratio_of([[1.0, 1.1, 1.2] * 9]).low


def test_launches_of_a_table_tell_how_far_they_are_apart():
    steady = [[1.0] * 9, [1.001] * 9]
    assert spread_of([steady] * 5) == LEAST_SPREAD
    assert spread_of([[[1.0] * 9, [1.2] * 9]] * 5) == pytest.approx(math.log(1.2) / math.sqrt(2))
    assert spread_of([[[1.0] * 9]]) == USUAL_SPREAD


@pytest.mark.parametrize("launches", [1, 3])
def test_the_interval_covers_what_it_should(launches):
    """Calls that vary by 10 %, launches by 2 %: the true ratio is inside in nearly 95 of 100."""
    chance = random.Random(1)
    covered = 0
    for _ in range(400):
        made = []
        for _ in range(launches):
            middle = chance.gauss(0, USUAL_SPREAD)
            made.append([math.exp(chance.gauss(middle, 0.1)) for _ in range(12)])
        found = ratio_of(made)
        covered += found.low <= 1 <= found.high
    assert covered >= 0.92 * 400
