"""Strategies against made-up clusters: exact, without a network."""

import gzip
import json
import random
from contextlib import suppress

import pytest

from search.decide import cells_of, decide
from search.measure.journal import Journal, Record
from search.measure.runner import Recorded
from search.measure.samples import Sample
from search.measure.strategy import EFFORTS, Cell, Failure, Rules, choose, race, three_steps

from .conftest import ROOT

RULES = Rules(least=6, most=20, tolerance=0.05, slot=100.0)


def answer(search, seconds, noise=0.0, records=None):
    """Run a strategy on seconds(variant, block); a string is a failure."""
    chance, counted = random.Random(1), {}
    try:
        wanted = next(search)
        while True:
            outcomes = {}
            for variant in wanted.variants:
                value = seconds(variant.label, wanted.block)
                if isinstance(value, str):
                    outcomes[variant] = Failure(value)
                    record = Record(variant.label, wanted.block, None, value)
                else:
                    outcomes[variant] = Sample(value * (1 + noise * chance.uniform(-1, 1)))
                    record = Record(variant.label, wanted.block, outcomes[variant])
                if records is not None:
                    records.append(record)
                key = variant.label, wanted.block
                counted[key] = counted.get(key, 0) + 1
            wanted = search.send(outcomes)
    except StopIteration:
        return counted


@pytest.fixture
def few(catalogue):
    return [
        catalogue.variant(label)
        for label in ("native", "ring(sync=none)", "ring(sync=light)", "bruck(radix=2)")
    ]


def test_the_grossly_slow_are_out_after_three_rounds(few):
    cell = Cell(64)
    counted = answer(
        race(cell, few, RULES), lambda label, block: 1e-3 * (9 if "ring" in label else 1), noise=0.2
    )
    assert counted["ring(sync=none)", 64] == 3
    assert counted["native", 64] >= RULES.least


def test_three_unlucky_rounds_put_nobody_out(few):
    """The first is slow in rounds 8 to 10 only: noise."""
    calls = []

    def seconds(label, block):
        calls.append(label)
        unlucky = label == "native" and calls.count("native") in (8, 9, 10)
        return 2e-3 if unlucky else 1e-3 * (1 + 0.3 * (len(calls) % 3))

    counted = answer(race(Cell(1), few, RULES), seconds)
    assert counted["native", 1] == max(counted.values()) > 10


def test_rounds_end_when_all_is_known(few):
    assert set(answer(race(Cell(1), few, RULES), lambda *_: 1e-3).values()) == {RULES.least}
    assert set(answer(race(Cell(1), few, RULES), lambda *_: 1.5).values()) == {3}
    noisy = answer(race(Cell(1), few, RULES), lambda *_: 1e-3, noise=0.4)
    assert max(noisy.values()) == RULES.most


def test_failures_are_set_aside_and_the_race_goes_on(few):
    cell = Cell(1)
    answer(race(cell, few, RULES), lambda label, _: "hangs" if "none" in label else 1e-3)
    assert [v.label for v in cell.failures] == ["ring(sync=none)"]
    assert len(cell.samples) == 3


def filled(few, block=8, **seconds):
    names = dict(zip(("native", "ring", "light", "bruck"), few))
    return Cell(block, {names[k]: [Sample(x) for x in v] for k, v in seconds.items()})


def test_the_incumbent_stays_within_the_noise(few):
    native, ring = few[:2]
    cell = filled(few, native=[1.00] * 9, ring=[0.98] * 9)
    assert choose(cell, native) == native
    cell = filled(few, native=[1.10] * 9, ring=[0.98] * 9)
    assert choose(cell, native) == ring
    noisy = filled(few, native=[0.9, 1.1] * 5, ring=[1.05, 0.96, 0.9] * 3 + [1.1])
    assert choose(noisy, native) == native


def test_among_equals_the_simplest_is_taken(few):
    ring, light = few[1:3]
    cell = filled(few, native=[2.0] * 9, ring=[1.0] * 9, light=[0.99] * 9)
    assert choose(cell, None) == ring
    assert choose(cell, light) == light


def cost(label, block):
    """Bruck below 100 bytes, native up to 5000, ring with tokens above."""
    costs = {
        "native": 1e-3 + 1e-7 * block,
        "ring(sync=none)": 1e-2 + 1e-7 * block,
        "ring(sync=light)": 1.3e-3 + 4e-8 * block,
        "bruck(radix=2)": 8e-4 + 2.1e-6 * block,
    }
    return costs[label]


def test_three_steps_find_the_cut_offs(few, catalogue):
    sizes, records, cells = [1, 64, 1024, 16384, 262144], [], {}
    answer(three_steps(cells, sizes, few, RULES), cost, noise=0.01, records=records)
    table = decide(8, cells_of(records, few), sizes, few)[0]
    assert [c.variant.label for c in table.cutoffs] == [
        "bruck(radix=2)",
        "native",
        "ring(sync=light)",
    ]
    assert table.cutoffs[0].most == pytest.approx(100, rel=0.25)
    assert table.cutoffs[1].most == pytest.approx(5000, rel=0.25)
    assert "x native" in table.cutoffs[2].why


def test_a_second_table_serves_where_needs_are_not_met(catalogue):
    variants = [catalogue.variant(x) for x in ("native", "ring(sync=none)", "pair(sync=none)")]
    records = [
        Record(v.label, b, Sample(t))
        for b in (1, 1024)
        for _ in range(9)
        for v, t in zip(variants, (3.0, 2.0, 1.0))
    ]
    tables = decide(8, cells_of(records, variants), [1, 1024], variants)
    assert [t.cutoffs[0].variant.label for t in tables] == ["pair(sync=none)", "ring(sync=none)"]
    assert not tables[1].needs


def test_recorded_samples_come_back_in_their_order(few, tmp_path):
    journal = Journal(tmp_path / "j", "f")
    for seconds in (1.0, 2.0):
        journal.append(Record("native", 1, Sample(seconds)))
    journal.append(Record("bruck(radix=2)", 1, None, "wrong data"))
    recorded = Recorded(journal)
    assert [recorded.take(few[0], 1) for _ in range(3)] == [Sample(1.0), Sample(2.0), None]
    assert recorded.take(few[3], 64) == Failure("wrong data")
    assert recorded.take(few[1], 1) is None


def test_efforts_differ():
    assert EFFORTS["quick"].least < EFFORTS["normal"].least


def test_a_recorded_journal_is_searched_and_decided_again(catalogue, tmp_path):
    """A real tuning (tests/data): the strategy asks for nothing that was not measured then, and
    what it finds is what is decided."""
    data = gzip.decompress((ROOT / "tests" / "data" / "two-switches.jsonl.gz").read_bytes())
    (tmp_path / "j").write_bytes(data)
    fingerprint = json.loads(data.splitlines()[0])["fingerprint"]
    journal = Journal(tmp_path / "j", fingerprint)
    measured = {record.label for record in journal.records}
    variants = [v for v in catalogue.variants(8) if v.label in measured]
    sizes = [1, 512, 8192]
    recorded, cells, asked = Recorded(journal), {}, 0
    search = three_steps(cells, sizes, variants, EFFORTS["quick"])
    with suppress(StopIteration):
        wanted = next(search)
        while True:
            outcomes = {v: recorded.take(v, wanted.block) for v in wanted.variants}
            assert None not in outcomes.values()
            asked += len(outcomes)
            wanted = search.send(outcomes)
    assert asked == len(journal.records) > 900
    again = cells_of(journal.records, variants)
    assert {b: c.samples for b, c in again.items()} == {b: c.samples for b, c in cells.items()}
    (table,) = decide(8, again, sizes, variants, lambda block: 1e-6 * block)
    assert "% of the physical limit" in table.cutoffs[-1].why
    assert [(c.most, c.variant.label) for c in table.cutoffs] == [
        (32, "bruck(radix=2)"),
        (4096, "native"),
        (None, "ring(sync=none)"),
    ]
