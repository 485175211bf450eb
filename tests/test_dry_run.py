"""What each body sends in a dry run, against the cost that its front matter claims."""

import math
from pathlib import Path

import pytest

from search.catalogue.algorithm import COST_TERMS, Variant
from search.catalogue.expression import evaluate

from .dry_runs import BLOCK, build_dry_run, dry_run, sending, traces

POWERS = {"doubling": 2, "mesh": 64}
"""Algorithms whose cost is exact where the number of ranks is a power of this only."""


GOLDEN = Path(__file__).resolve().parent / "golden"


@pytest.fixture(scope="module")
def program(tools, catalogue, tmp_path_factory):
    return build_dry_run(tools, catalogue, tmp_path_factory.mktemp("dry"))


def test_bodies_send_what_they_sent(catalogue, program):
    """After a wanted change of a body: make golden."""
    assert traces(program, catalogue) == (GOLDEN / "traces.txt").read_text()


def claimed(variant: Variant, term: str, ranks: int) -> float:
    """How often a term stands in the cost of a variant: of beta, bytes."""
    values = {name: float(name == term) for name in COST_TERMS}
    own = {"p": ranks, "n": BLOCK, "phases": ranks - 1, **dict(variant.values)}
    return evaluate(variant.body.cost, {**own, **values})


def is_exact(variant: Variant, ranks: int) -> bool:
    """Whether the formula holds to the byte on so many ranks; it is an upper bound else."""
    values = dict(variant.values)
    radix = values.get("radix", POWERS.get(variant.body.algorithm.name, 0))
    rest = ranks / values.get("first", 1)
    return not radix or (rest >= 1 and round(math.log(rest, radix), 9).is_integer())


@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8, 9, 16, pytest.param(64, marks=pytest.mark.full)])
def test_a_body_sends_what_its_cost_says(catalogue, program, ranks):
    mine = [
        v
        for v in sending(catalogue, ranks)
        if not dict(v.values).get("gather")
        and not dict(v.values).get("scatter")
        and (ranks < 64 or "ranking" not in v.label)
    ]
    assert mine
    for variant, counted in zip(mine, dry_run(program, ranks, mine)):
        half_duplex = variant.body.algorithm.half_duplex
        messages = counted.both if half_duplex else max(counted.sent, counted.received)
        found = (
            counted.both_bytes if half_duplex else max(counted.sent_bytes, counted.received_bytes)
        )
        alpha, beta = claimed(variant, "alpha", ranks), claimed(variant, "beta", ranks)
        where = f"{variant.label} on {ranks} ranks: {counted}"
        if is_exact(variant, ranks):
            if not dict(variant.values).get("segment"):
                assert messages == pytest.approx(alpha), where
            assert found == pytest.approx(beta), where
        elif variant.body.algorithm.name == "doubling":
            assert messages <= 2 * alpha and found <= 2 * beta, where  # as the paper says
        elif variant.body.algorithm.name == "bruck":
            assert messages <= alpha and found <= beta, where
        barriers = claimed(variant, "delta_h", ranks)
        if "barrier_" in variant.label:
            assert counted.tokens and not counted.barriers, where
        else:
            assert counted.barriers == barriers, where
        if variant.body.label.startswith(("ring", "pair")) and not barriers:
            assert counted.tokens == claimed(variant, "delta_l", ranks), where


def test_a_wrong_cost_is_noticed(catalogue, program):
    """A ring is not as cheap as Bruck: the counts tell them apart."""
    ring, bruck = catalogue.variant("ring(sync=none)"), catalogue.variant("bruck(radix=2)")
    counted = dry_run(program, 16, [ring])[0]
    assert counted.sent == claimed(ring, "alpha", 16) != claimed(bruck, "alpha", 16)
    assert counted.sent_bytes == claimed(ring, "beta", 16) != claimed(bruck, "beta", 16)
