import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.measure.samples import Sample, median_interval, ratio_interval, score

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
    body = [Sample(0.005)] * 99
    assert score([*body, Sample(0.205, 1, 1)]) == pytest.approx(0.005 + 0.2 / 100)
    assert score([*body, Sample(0.205)]) == 0.005


def test_ratios_are_paired_so_that_drift_cancels():
    drift = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert ratio_interval([3 * x for x in drift], drift).high == 3.0
