"""How far time is dilated: by what tests see, made up here."""

import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from search.cluster.hosts import Cluster, Host
from search.cluster.topology_file import parse_conf
from search.cluster.watch import Watch
from search.measure import null_tests
from search.measure.null_tests import NullTests, dilation_text, fit
from search.results.workload import Workload

GOOD = NullTests(1.0, 0.98, 0.94, 0.3, 0.02, 0.0, 0.0)
TREE = "SwitchName=s0 Nodes=n[0-3] LinkSpeed=100\n"


@pytest.fixture
def cluster():
    tree = parse_conf(TREE, "here")
    return Cluster("emulated", tuple(Host(h, 1) for h in tree.hosts), 4, tree, buffer=32768)


def worse(**changes):
    return NullTests(**{**vars(GOOD), **changes})


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"flow": 0.86}, "one flow has 86%"),
        ({"shift": 0.69, "alltoall": 0.5}, "all links at once have 69%"),
        ({"alltoall": 0.7}, "an all-to-all has 70%"),
        ({"processors": 0.9}, "90% busy"),
        ({"stall": 0.15}, "150 ms"),
    ],
)
def test_what_is_wrong_is_named(changes, word):
    assert GOOD.troubles(0.2) == []
    assert any(word in trouble for trouble in worse(**changes).troubles(0.2))


def test_busy_processors_tell_nothing_where_others_have_them():
    assert worse(processors=1.0, others=1.0).troubles(0.2) == []


def test_a_stall_is_measured_by_the_time_out():
    assert worse(stall=0.3).troubles(0.2)
    assert worse(stall=0.3).troubles(0.8) == []


def fitted(cluster, monkeypatch, by_dilation, first=1):
    """The dilation that is chosen where tests see this at each."""
    tried = []

    @contextmanager
    def started(dilated):
        tried.append(dilated.dilation)
        yield None

    monkeypatch.setattr(null_tests, "null_tests", lambda c, job, label: by_dilation(c.dilation))
    found, tests = fit(cluster, first, started, "phased", lambda text: None)
    assert replace(tests, is_inherent=False) == by_dilation(found.dilation)
    return found, tried


def test_the_least_divisor_that_will_do_is_taken(cluster, monkeypatch):
    found, tried = fitted(
        cluster, monkeypatch, lambda d: GOOD if d >= 4 else worse(flow=0.4 * d, alltoall=0.3 * d)
    )
    assert (found.dilation, tried) == (4, [1, 2, 4])
    assert {link.mbit for link in found.topology.links} == {25.0}
    assert found.timeout == 0.8
    assert dilation_text(found) == "a quarter of its speed: 25 Mbit/s stand for 100"
    assert dilation_text(cluster) == ""


def test_a_tuning_that_goes_on_keeps_its_divisor(cluster, monkeypatch):
    assert fitted(cluster, monkeypatch, lambda d: GOOD, first=4)[1] == [4]
    worse_now = lambda d: GOOD if d >= 8 else worse(flow=0.1 * d, alltoall=0.1 * d)  # noqa: E731
    assert fitted(cluster, monkeypatch, worse_now, first=4)[0].dilation == 8


def test_where_dilating_does_not_help_it_ends(cluster, monkeypatch):
    assert fitted(cluster, monkeypatch, lambda d: worse(flow=0.7))[0].dilation == 1
    stalls = fitted(cluster, monkeypatch, lambda d: worse(flow=0.7, stall=0.3))
    assert stalls[0].dilation == 4  # where time-outs are longer than stalls


def test_what_the_library_adds_is_not_this_machines_doing(cluster, monkeypatch):
    """It takes so much longer at any speed; what a machine adds halves where time doubles."""

    def tests(alltoall):
        monkeypatch.setattr(
            null_tests, "null_tests", lambda c, job, label: worse(alltoall=alltoall[c.dilation])
        )
        return fit(cluster, 1, lambda dilated: nullcontext(), "phased", lambda text: None)

    found, seen = tests({1: 0.72, 2: 0.76})
    assert found.dilation == 1 and seen.is_inherent and seen.troubles(0.2) == []
    found, seen = tests({1: 0.72, 2: 0.84})
    assert found.dilation == 2 and not seen.is_inherent


def test_what_is_short_of_processors_is_not_the_librarys_doing(cluster, monkeypatch):
    short = worse(alltoall=0.7, others=0.5)
    monkeypatch.setattr(null_tests, "null_tests", lambda c, job, label: short)
    assert fit(cluster, 1, lambda dilated: nullcontext(), "phased", lambda text: None)[1] == short


def test_processors_that_get_less_to_do_are_worth_another_step(cluster, monkeypatch):
    busy = {1: 0.95, 2: 0.85, 4: 0.7}
    assert fitted(cluster, monkeypatch, lambda d: worse(processors=busy[d]))[0].dilation == 4


def test_an_emulation_is_never_refused(cluster, monkeypatch):
    found, tried = fitted(cluster, monkeypatch, lambda d: worse(flow=0.02 * d, alltoall=0.02 * d))
    assert (found.dilation, tried) == (16, [1, 2, 4, 8, 16])


def test_blocks_of_one_frame_are_timed_as_the_cluster_was_described(cluster):
    dilated = cluster.dilated(4)
    assert dilated.at(1448) == cluster and dilated.at(1449) == dilated
    assert dilated.limit(Workload(4, 1448)) == cluster.limit(Workload(4, 1448))
    assert dilated.limit(Workload(4, 1449)) == pytest.approx(4 * cluster.limit(Workload(4, 1449)))


def test_dilating_twice_is_counted_from_the_file(cluster):
    assert cluster.dilated(4).dilated(2) == cluster.dilated(2)


def test_the_watch_sees_what_processors_do():
    with Watch() as watch:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
    assert watch.elapsed >= 0.2
    assert 0 <= watch.steal <= watch.busy <= 1
    watch._stalls, watch.elapsed = [(1.0, 1.3), (2.0, 2.3), (3.0, 3.3)], 3.0
    assert (watch.stall, watch.stalled) == (pytest.approx(0.3), pytest.approx(0.9))
    assert watch.stalled_since(2.2) == pytest.approx(0.4)
    watch._stalls = [(1.0, 1.03)]
    assert watch.stall == 0.0


def test_where_processors_are_short_is_said():
    assert not GOOD.is_disturbed
    for changes in ({"others": 0.3}, {"stall": 0.02}, {"cores": 1}):
        assert worse(**changes).is_disturbed
