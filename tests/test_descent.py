"""MGD and SMGD: where they begin, what they look past, what they leave out."""

import pytest

from search.results.workload import Workload
from search.strategy import STRATEGIES
from search.strategy.descent import BEYOND, THRESHOLD, lines_of
from search.strategy.request import EFFORTS, Task

from .test_strategy import answer

SEGMENTS = [0, 14336, 8192, 4096]
BLOCK = 32768


def labels(variants):
    return [variant.label for variant in variants]


@pytest.fixture
def variants(catalogue):
    """Three methods with segments, and one without numbers."""
    named = ["native"]
    named += [f"circular(segment={size})" for size in (4096, 8192)]
    named += [f"phased(sync=receiver,segment={size},depth=1)" for size in sorted(SEGMENTS)]
    named += [f"phased(sync=sender,segment={size},depth=1)" for size in sorted(SEGMENTS)]
    return [catalogue.variant(label) for label in named]


def searched(strategy, variants, seconds):
    """What is timed while each value of a method takes so many seconds, and the filled cell."""
    cells, timed = {}, []

    def cost(label, _):
        if label not in timed:
            timed.append(label)
        return seconds(label)

    task = Task(8, (BLOCK,), tuple(variants), EFFORTS["normal"], lambda variant: [])
    answer(STRATEGIES[strategy](cells, task), cost)
    return timed, cells[Workload(8, BLOCK)]


def by_segment(**methods):
    """Seconds of a label: of the method whose name it contains, by its segment."""

    def seconds(label):
        method = next((m for m in methods if m in label), None)
        if method is None:
            return 1.0
        times = methods[method]
        part = label.partition("segment=")[2].partition(",")[0].rstrip(")")
        return times[SEGMENTS.index(int(part))] if isinstance(times, list) else times

    return seconds


def test_lines_begin_at_the_largest_value(variants):
    lines = [labels(line.variants) for line in lines_of(variants)]
    assert ["native"] in lines
    assert ["circular(segment=8192)", "circular(segment=4096)"] in lines
    assert [f"phased(sync=sender,segment={s},depth=1)" for s in SEGMENTS] in lines
    assert sum(map(len, lines)) == len(variants)


@pytest.mark.parametrize("strategy", ["mgd", "smgd"])
def test_a_descent_looks_past_the_first_minimum(variants, strategy):
    seconds = by_segment(receiver=[0.9, 0.95, 0.6, 0.7], sender=1.1, circular=1.1)
    timed, cell = searched(strategy, variants, seconds)
    assert BEYOND == 2
    assert cell.best().label == "phased(sync=receiver,segment=8192,depth=1)"
    assert "phased(sync=receiver,segment=4096,depth=1)" in timed


def test_mgd_stops_where_values_get_worse(variants):
    seconds = by_segment(receiver=[0.5, 0.6, 0.7, 0.1], sender=1.1, circular=1.1)
    timed, cell = searched("mgd", variants, seconds)
    assert "phased(sync=receiver,segment=4096,depth=1)" not in timed
    assert cell.best().label == "phased(sync=receiver,segment=0,depth=1)"


def test_smgd_prunes_what_is_predicted_to_be_slow(variants):
    """Not by the largest values alone: a second one shows which way it goes."""
    slow = THRESHOLD * 1.2
    steep, flat = [slow, 0.5 * slow, 0.3, 0.4], [slow, 0.98 * slow, 0.1, 0.1]
    seconds = by_segment(receiver=steep, sender=flat, circular=0.9)
    timed, cell = searched("smgd", variants, seconds)
    assert "phased(sync=sender,segment=14336,depth=1)" in timed
    assert "phased(sync=sender,segment=8192,depth=1)" not in timed
    assert cell.best().label == "phased(sync=receiver,segment=8192,depth=1)"
    assert "phased(sync=sender,segment=8192,depth=1)" in searched("mgd", variants, seconds)[0]


def test_smgd_goes_where_most_is_promised(variants):
    """The steepest line first: it overtakes, and the others are pruned then."""
    flat = [1.0, 0.98, 0.97, 0.96]
    seconds = by_segment(receiver=[1.2, 0.6, 0.3, 0.29], sender=flat, circular=1.3)
    timed, _ = searched("smgd", variants, seconds)
    assert "phased(sync=sender,segment=4096,depth=1)" not in timed
