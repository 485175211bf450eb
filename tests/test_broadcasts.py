"""Broadcasts, by which models are judged: their variants, MagPIe's formulas, and a real job's."""

from dataclasses import replace

import pytest
from rich.console import Console

from search.analysis import broadcasts
from search.analysis.broadcasts import (
    LIBRARY,
    TREES,
    compare_models,
    of_label,
    request_of,
    seconds_of,
    variants,
)
from search.analysis.compare import compare_strategies
from search.cli.desk import Desk
from search.cli.workplace import Workplace
from search.model.magpie import completion, parameters, shape
from search.results.cell import cells_of
from search.results.journal import Journal, Record
from search.results.samples import Interval, Sample
from search.results.workload import Workload

from .test_expectation import points
from .test_points import point


def times(**seconds):
    """Points of two sizes between which everything is on a line."""
    found = []
    for size, factor in ((0, 1.0), (1000, 2.0)):
        scaled = {k: Interval(*[factor * v] * 3) for k, v in seconds.items()}
        found.append(replace(point(size, "immediate"), **scaled))
    return replace(points(), sizes=tuple(found))


def test_parameters_lie_on_the_line_between_sizes():
    known = times(each=1e-5, o_s=2e-6, o_r=3e-6, one_way=5e-5)
    gap, send, receive, latency = parameters(known, 500)
    assert (gap, send, receive) == pytest.approx((1.5e-5, 3e-6, 4.5e-6))
    assert latency == pytest.approx(4e-5)
    assert parameters(known, 1 << 20)[0] > parameters(known, 1000)[0] == pytest.approx(2e-5)


@pytest.mark.parametrize(
    "tree, height, degree", [("flat", 1, 7), ("chain", 7, 1), ("binary", 3, 2), ("binomial", 3, 3)]
)
def test_a_formula_by_hand(tree, height, degree):
    """Eight segments on eight ranks: seven gaps of the busiest node, and the way down."""
    known = times(each=1e-5, o_s=2e-6, o_r=3e-6, one_way=5e-5)
    assert shape(tree, 8) == (height, degree)
    gap, latency = 2e-5, 4e-5
    by_hand = 7 * max(degree * gap, 6e-6 + degree * 4e-6) + height * (latency + degree * gap)
    assert completion(tree, 8, 8000, 1000, known) == pytest.approx(by_hand)


def test_variants_go_down_to_a_double():
    mine = variants(1024)
    assert mine[0] == LIBRARY and len(mine) == 1 + len(TREES) * 8
    assert {request_of(v, 1024)[1] for v in mine} == {8 << i for i in range(8)}
    assert all(of_label(variant.label) == variant for variant in mine)
    assert all(variant.fits(8, 1024) for variant in mine)


def recorded(seconds):
    """Records of all variants of 1 KiB; seconds of a tree and a segment."""
    return [
        Record(
            Workload(8, 1024), v.label, n, Sample((seconds(*request_of(v, 1024)),) * 2, spent=0.01)
        )
        for v in variants(1024)
        for n in range(6)
    ]


def test_the_loss_of_a_prediction_is_what_was_measured_there():
    records = recorded(lambda tree, segment: 1e-3 * (1 + abs(segment - 64) / 64))
    cell = cells_of(records, variants(1024))[8, 1024]
    assert seconds_of(cell, "chain")[128] == pytest.approx(2e-3)
    right, wrong = (lambda t, n, s: abs(s - 64), lambda t, n, s: abs(s - 128))
    rows = compare_models(cell, {"right": right, "wrong": wrong})
    assert [row.tree for row in rows] == list(TREES)
    for row in rows:
        assert row.measured == row.predicted["right"] == 64 and row.loss["right"] == 1
        assert row.predicted["wrong"] == 128 and row.loss["wrong"] == pytest.approx(2.0)


def test_every_strategy_can_search_broadcasts():
    slow = {"flat": 4.0, "binary": 2.0, "binomial": 3.0}
    records = recorded(
        lambda tree, segment: 1e-3 * slow.get(tree, 1) * (1 + abs(segment - 64) / 64)
    )
    results = compare_strategies(Console(quiet=True), "some", records, of_label)
    assert {r.strategy for r in results} >= {"exhaustive", "mgd", "smgd", "racing"}
    costs = {result.strategy: result.seconds for result in results}
    assert costs["smgd"] < costs["exhaustive"] / 2


@pytest.fixture
def job(tools, catalogue, waiting_jobs, tmp_path):
    from search.cluster.hosts import Cluster, Host
    from search.cluster.site import Site
    from search.cluster.topology import single_switch

    (tmp_path / "build").mkdir()
    cluster = Cluster("local", (Host("here", 5),), 5, single_switch(["here"]))
    with Site(cluster, tools, tmp_path / "build") as site:
        started = Desk(Console(), Workplace(tmp_path), catalogue, 0.0).start_job(site)
        yield started
        started.close()


def test_a_job_broadcasts_what_every_rank_gets(job, tmp_path, monkeypatch):
    """The job verifies each before it times it; what is in the journal is not timed again."""
    monkeypatch.setattr(broadcasts, "ROUNDS", 3)
    journal, said = Journal(tmp_path / "broadcasts.jsonl", "f"), []
    records = broadcasts.record(job, journal, 5, 1024, said.append)
    assert len(records) == 3 * len(variants(1024)) and len(said) == 3
    cell = cells_of(records, variants(1024))[5, 1024]
    assert all(cell.score(variant) > 0 for variant in cell.variants)
    for segment in (1, 7, 1000, 1 << 20):
        for tree in (*TREES, "library"):
            assert job.ask(f"broadcast {tree} 1000 {segment} 0 1", 60)["seconds"][0] > 0
    assert broadcasts.record(None, Journal(journal.path, "f"), 5, 1024, said.append) == records
    assert len(broadcasts.pipelines(job, cell)) == len(TREES)
    assert broadcasts.is_saturated(job, 5) in (False, True)
