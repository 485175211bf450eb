"""Whether what was tuned is still right: verdicts from made-up times, and errors."""

import subprocess

import pytest

from search.analysis.bench import Timed, make_rows
from search.analysis.verify import RUNNER_UP, changes, judge, other_rates, plan, sure, what_matters
from search.decide.decision import Cutoff, DecisionTable, Evidence
from search.results.samples import Sample
from search.results.workload import Team

from .conftest import ROOT


def judged(block=65536, native=1.2, runner_up=1.05, now=1.0, rival="ring(sync=none)"):
    """A row that took a second when it was tuned, and what its bench gives in seconds now."""
    evidence = Evidence(block, 1.0, runner_up=rival)
    times = {"library": native, "generated": 1.0, RUNNER_UP: runner_up}
    samples = {
        name: [Sample((seconds * now * (1 + 0.001 * n),)) for n in range(9)]
        for name, seconds in times.items()
    }
    timed = Timed(block, [samples, samples])
    mine = plan(Team(8), [block], {block: rival or "library"}, lambda block: 0.2)
    (row,) = make_rows([timed], mine, lambda workload: None, lambda block: "phased")
    return judge(row, timed, evidence)


def test_a_row_that_does_as_it_did_is_right():
    verdict = judged()
    assert verdict.why == ""
    assert verdict.native.median == pytest.approx(1.2)
    assert verdict.then == pytest.approx(1.0, abs=0.01)
    assert judged(native=0.97).why == ""  # a row may lose a little
    assert judged(now=1.2).why == judged(now=0.9).why == ""
    assert judged(block=64, now=3.0).why == ""  # the processors' load


def test_a_rival_that_is_faster_now_is_named():
    assert judged(native=0.8).why == "the library's own is faster now"
    assert judged(runner_up=0.8).why == "ring(sync=none) is faster now"
    assert judged(runner_up=0.8, rival=None).why == ""
    assert judged(runner_up=0.8, rival=None).runner_up is None


def test_a_network_with_another_speed_is_seen():
    assert judged(now=2.0).why == "it takes longer than it did"
    assert judged(now=0.5).why == "it takes less than it did"


def test_another_network_shows_in_all_large_blocks():
    slow, right, rival = judged(block=4096, now=2.0), judged(), judged(native=0.8)
    small = judged(block=64)
    assert [one.why for one in sure([small, slow, right])] == ["", "", ""]
    assert [one.why for one in sure([small, slow, slow])] == ["", slow.why, slow.why]
    assert [one.why for one in sure([slow, rival])] == ["", rival.why]


def test_the_rows_that_gain_most_matter(catalogue):
    def row(block, ratio):
        evidence = Evidence(block, 1.0, native=(ratio,) * 4) if ratio else None
        return Cutoff(block, catalogue.variant("bruck(radix=2)"), evidence=evidence)

    rows = [row(1 << n, 1.1 + 0.1 * (n % 5)) for n in range(12)] + [row(1 << 12, None)]
    found = what_matters(DecisionTable(8, tuple(rows)))
    assert [*found] == sorted(found)
    assert len(found) == 8
    assert not {1, 32, 1024} & set(found)  # they gain least


def test_where_messages_pass_at_another_rate_is_named():
    hosts, before = ["n1", "n2", "n3"], [1e7, 1e7, 1e7]
    usual = [[0.9e7, 1.1e7, 1e7]] * 3
    assert other_rates(hosts, before, usual) == []
    slow = [[1e7, 0.5e7, rate] for rate in (0.5e7, 0.6e7, 0.9e7)]
    (said,) = other_rates(hosts, before, slow)  # once in three passes the last did as it did
    assert said == "from n2 to n3 40 Mbit/s of payload pass, once 80"
    assert other_rates(["n1", "n2", "n2"], before, slow) == []  # in memory, not on a cable
    fast = [[1e7, 1e7, 3e7]] * 3
    assert other_rates(hosts, before, fast) == ["from n3 to n1 240 Mbit/s of payload pass, once 80"]


def test_what_changed_is_named_with_what_it_was():
    before = {"library": "MPICH 5.0.2", "tcp": {"tcp_sack": "1"}}
    assert changes(before, before) == []
    assert changes(before, {**before, "library": "MPICH 4.0.2"}) == [
        "library was MPICH 5.0.2, is MPICH 4.0.2"
    ]
    assert "tcp was" in changes(before, {"library": "MPICH 5.0.2"})[0]
    other = {**before, "tcp": {"tcp_sack": ["1", "0", "1"]}}
    assert changes(before, other) == ["tcp_sack was 1, is 1 on 2, 0 on 1"]


def test_where_nothing_is_tuned_there_is_nothing_to_verify(tmp_path):
    done = subprocess.run(
        [str(ROOT / "configure"), "--verify"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "nothing is tuned here: run ./configure on the cluster" in done.stderr
