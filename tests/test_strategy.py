"""Strategies against made-up clusters and recorded ones: exact, without a network."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from search.analysis import compare as comparison
from search.analysis.compare import compare_strategies
from search.analysis.families import compare_families
from search.decide.rows import decide, decide_table
from search.model.expectation import foreseen_beside, read_foreseen
from search.results.cell import Cell, cells_of, choose, linked
from search.results.journal import any_journal
from search.results.record import Record
from search.results.recorded import Recorded
from search.results.samples import Sample
from search.results.workload import Workload
from search.strategy import STRATEGIES
from search.strategy.elimination import better_half, not_grossly_slow, not_rejected, undecided
from search.strategy.grid import coarse
from search.strategy.promise import Promises
from search.strategy.racing import entrants
from search.strategy.request import EFFORTS, SIZES, Answer, Failure, Relaunch, Round, Rules, Task
from search.strategy.three_steps import compare

from .conftest import ROOT

RULES = Rules(least=6, most=20, tolerance=0.05, budget=100.0)
DATA = sorted((ROOT / "tests" / "data").glob("*.jsonl.gz"))


def sample(seconds, **troubles):
    return Sample((seconds,), spent=seconds + 0.002, **troubles)


def answer(search, seconds, noise=0.0, records=None, relaunches=None):
    """Run a strategy on seconds(label, block); a string is a failure. Returns visits by key."""
    chance, counted, numbers = random.Random(1), {}, {}
    try:
        wanted = next(search)
        while True:
            if not isinstance(wanted, Round):
                if isinstance(wanted, Relaunch):
                    relaunches.append(wanted)
                wanted = search.send(Answer())
                continue
            number = numbers[wanted.workload.block] = numbers.get(wanted.workload.block, -1) + 1
            outcomes = {}
            for variant in wanted.variants:
                value = seconds(variant.label, wanted.workload.block)
                key = variant.label, wanted.workload.block
                counted[key] = counted.get(key, 0) + 1
                if isinstance(value, str):
                    outcomes[variant] = Failure(value)
                    record = Record(
                        Workload(8, wanted.workload.block), variant.label, failure=value
                    )
                else:
                    outcomes[variant] = sample(value * (1 + noise * chance.uniform(-1, 1)))
                    record = Record(
                        Workload(8, wanted.workload.block), variant.label, number, outcomes[variant]
                    )
                if records is not None:
                    records.append(record)
            wanted = search.send(Answer(number, outcomes))
    except StopIteration:
        return counted


def task(variants, sizes, rules=RULES, near=lambda variant: []):
    return Task(8, tuple(sizes), tuple(variants), rules, near)


@pytest.fixture
def few(catalogue):
    return [
        catalogue.variant(label)
        for label in ("native", "ring(sync=none)", "ring(sync=light)", "bruck(radix=2)")
    ]


def filled(few, block=8, **seconds):
    names = dict(zip(("native", "ring", "light", "bruck"), few))
    rounds = {names[k]: {n: sample(x) for n, x in enumerate(v)} for k, v in seconds.items()}
    return Cell(Workload(8, block), rounds)


# ---- cells


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


def test_only_finalists_are_chosen(few):
    """Who was given up after three lucky rounds does not come back."""
    cell = filled(few, native=[1.0] * 9, ring=[0.5] * 3)
    assert cell.finalists == [few[0]]
    assert choose(cell, None) == few[0]


def test_a_late_guest_does_not_send_the_others_home(few):
    """It met the winner alone, who turned out to lose segments then."""
    native, ring, light = few[:3]
    cell = filled(few, native=[3.0] * 5, ring=[1.0] * 5, light=[1.04] * 5)
    cell.rounds[few[3]] = {n: sample(1.5) for n in (5, 6, 7)}
    cell.rounds[ring].update({n: Sample((1.0,), ((0, 40),)) for n in (5, 6, 7)})
    assert set(cell.finalists) == set(few)
    assert choose(cell, None) == light


def test_pairs_are_of_the_same_round(few):
    native, ring = few[:2]
    cell = filled(few, native=[1, 2, 4, 8, 16])
    cell.rounds[ring] = {n: sample(0.5 * 2**n) for n in (2, 3, 4)}
    assert (cell.ratio(native, ring).low, cell.ratio(native, ring).high) == (2.0, 2.0)


def test_drift_is_seen_only_beyond_the_noise(few):
    assert not filled(few, native=[1.0, 1.1] * 12).drifted()
    assert filled(few, native=[1.0, 1.01] * 6 + [1.1, 1.11] * 6).drifted()


# ---- elimination


def test_the_grossly_slow_are_out_after_three_rounds(few):
    cell = filled(few, native=[1, 1, 1], ring=[2, 2, 2], light=[1, 9, 9], bruck=[1.6, 1.4, 1.6])
    native, ring, light, bruck = few
    assert not_grossly_slow(cell, few) == [native, light, bruck]
    assert not_grossly_slow(filled(few, native=[1, 1], ring=[2, 2]), few[:2]) == few[:2]


def test_three_unlucky_rounds_put_nobody_out(few):
    cell = filled(few, native=[1.0] * 7 + [2.0] * 3, ring=[1.0] * 10)
    assert not_grossly_slow(cell, few[:2]) == few[:2]


def test_paired_tests_need_enough_rounds_and_a_difference_that_matters(few):
    pair = few[:2]
    assert not_rejected(filled(few, native=[1.2] * 6, ring=[1.0] * 6), pair) == pair
    assert not_rejected(filled(few, native=[1.2] * 7, ring=[1.0] * 7), pair) == [few[1]]
    assert not_rejected(filled(few, native=[1.02] * 20, ring=[1.0] * 20), pair) == pair


def test_half_goes_but_never_the_simplest(few):
    cell = filled(few, native=[9.0], ring=[1.0], light=[2.0], bruck=[3.0])
    assert better_half(cell, few, 2) == few[:3]


def test_what_is_equal_in_practice_is_decided(few):
    native, ring = few[:2]
    assert undecided(filled(few, native=[1.01] * 9, ring=[1.0] * 9), [native, ring]) == []
    assert undecided(filled(few, native=[1.2] * 9, ring=[1.0] * 9), [native, ring]) == []
    wide = filled(few, native=[0.9, 1.2] * 5, ring=[1.0] * 10)
    assert undecided(wide, [native, ring]) == [native]


# ---- strategies


def cost(label, block):
    """Bruck below 100 bytes, native up to 5000, ring with tokens above."""
    costs = {
        "native": 1e-3 + 1e-7 * block,
        "ring(sync=none)": 1e-2 + 1e-7 * block,
        "ring(sync=light)": 1.3e-3 + 4e-8 * block,
        "bruck(radix=2)": 8e-4 + 2.1e-6 * block,
    }
    return costs[label]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_finds_the_cut_offs(few, strategy):
    sizes, records, cells = [1, 64, 1024, 16384, 262144], [], {}
    search = STRATEGIES[strategy](cells, task(few, sizes))
    answer(search, cost, noise=0.01, records=records)
    again = cells_of(records, few)
    assert {p: c.rounds for p, c in again.items()} == {p: c.rounds for p, c in cells.items()}
    table = decide(again, lambda _: sizes, few[0])[0]
    assert [c.variant.label for c in table.cutoffs] == [
        "bruck(radix=2)",
        "native",
        "ring(sync=light)",
    ]
    assert 30 < table.cutoffs[0].most < 300
    assert 2000 < table.cutoffs[1].most < 12000
    assert table.cutoffs[2].evidence.native[0] > 1.01


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_failures_are_set_aside_and_the_search_goes_on(few, strategy):
    cells = {}
    search = STRATEGIES[strategy](cells, task(few, [1, 4096]))
    answer(search, lambda label, block: "hangs" if "none" in label else cost(label, block))
    for cell in cells.values():
        assert few[1] not in cell.rounds
        assert few[0] in cell.rounds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_works_but_native_fails_not(few, strategy):
    cells = {}
    search = STRATEGIES[strategy](cells, task(few, [1, 64, 4096]))
    answer(search, lambda label, _: 1e-3 if label == "native" else "wrong data")
    (table,) = decide(cells, lambda _: [1, 64, 4096], few[0])
    assert [c.variant.label for c in table.cutoffs] == ["native"]


def test_rounds_end_when_all_is_known(few):
    def visits(cost, **more):
        return set(
            answer(compare(Cell(Workload(8, 1)), few, task(few, [1])), cost, **more).values()
        )

    assert visits(lambda *_: 1e-3) == {RULES.least}
    assert visits(lambda *_: 40.0) == {3}
    assert max(visits(lambda *_: 1e-3, noise=0.4)) == RULES.most


def test_the_coarse_grid_has_no_large_gap_and_both_ends():
    assert coarse([1, 64, 128, 129, 256, 512]) == [1, 64, 128, 129, 512]  # both sides of a jump
    grid = coarse(SIZES)
    assert (grid[0], grid[-1]) == (SIZES[0], SIZES[-1])
    assert len(grid) < len(SIZES) - 3
    for low, high in zip(grid, grid[1:]):
        assert high <= 10 * low or SIZES.index(high) == SIZES.index(low) + 1
    assert coarse([8]) == [8]


def test_racing_refines_numbers_that_nobody_listed(catalogue):
    """The best window is 5: between those of the walk, found step by step."""
    variants = [
        v
        for v in catalogue.variants(16, ("simple",))
        if not v.named("ranking") or v.named("ranking") == "index"
    ]

    def seconds(label, block):
        window = dict(catalogue.variant(label).values).get("window")
        return 2e-3 if window is None else 1e-3 * (1 + 0.1 * abs(window - 5))

    cells = {}
    near = lambda variant: [v for v in variant.near(16) if v.named("ranking") == "index"]  # noqa: E731
    answer(STRATEGIES["racing"](cells, task(variants, [64], near=near)), seconds, noise=0.005)
    (cell,) = cells.values()
    assert cell.best().label == "simple(order=sliding,window=5)"


def test_racing_starts_with_what_was_good_nearby(few, catalogue):
    """Where a cell is dear only a few enter, those that did well at the size before."""
    every = catalogue.variants(8)

    def seconds(label, block):
        return block * 1e-6 * (1.0 if "light" in label else 1.02 if label == "native" else 1.3)

    counted = answer(
        STRATEGIES["racing"]({}, task(every, [16384, 262144], EFFORTS["normal"])), seconds, 0.01
    )
    late = {label for label, block in counted if block == 262144}
    assert len(late) < 16
    assert any("light" in label for label in late)


def test_what_is_free_of_contention_enters_where_rounds_are_dear(catalogue):
    """Its tokens cost too much for short blocks, so it promised nothing."""

    def seconds(label, block):
        is_free = label.startswith("phased(sync=receiver") or label.startswith("phased(sync=sender")
        return 2.3e-6 * block * ((3.0 if block < 65536 else 0.5) if is_free else 1.0)

    cells = {}
    sizes = [64, 4096, 262144]
    answer(
        STRATEGIES["racing"](cells, task(catalogue.variants(8), sizes, EFFORTS["normal"])),
        seconds,
        0.01,
    )
    assert cells[Workload(8, 262144)].best().is_contention_free


def test_a_relative_promises_a_little_less(catalogue):
    """So that what was never timed does not enter before what won."""
    names = "ring(sync=none)", "phased(sync=receiver,segment=0,depth=1)"
    native = catalogue.variant("native")
    cell = Cell(Workload(8, 32768), {catalogue.variant(x): {0: sample(1.0)} for x in names})
    promises = Promises([cell], [32768, 262144])
    other = catalogue.variant("phased(sync=sender,segment=0,depth=1)")
    assert 1.0 < promises.of(other, 262144) < 1.1
    assert promises.of(native, 262144) == 1.0


def test_neighbours_winners_enter_whatever_they_promise(catalogue):
    """What wins above may have lost below, and yet win between."""
    variants = catalogue.variants(8)
    light = catalogue.variant("ring(sync=light)")

    def cell(block, seconds):
        times = {v: seconds if v == light else 1.0 for v in variants}
        return Cell(Workload(8, block), {v: {0: sample(x)} for v, x in times.items()})

    mine = task(variants, [8192, 16384, 32768])
    promises = Promises([cell(8192, 2.0), cell(32768, 0.9)], mine.sizes)
    assert light not in entrants(mine, promises, 16384, 1.01)
    assert light in entrants(mine, promises, 16384, 1.01, [light])


@pytest.mark.parametrize("seed", range(6))
def test_in_the_end_neighbours_know_each_others_winners(catalogue, seed):
    """And no size is left out between two that disagree, however late their winners met."""
    chance, factors = random.Random(seed), {}

    def seconds(label, block):
        factor = factors.setdefault((label, block), chance.uniform(1.0, 1.6))
        return (1e-4 + 1e-8 * block) * factor

    variants = [v for v in catalogue.variants(8) if v == v.plain][::2]
    native = catalogue.variant("native")
    sizes = [1 << i for i in range(0, 21, 2)]
    mine = replace(task([native, *variants], sizes), between=False)
    cells = {}
    answer(STRATEGIES["racing"](cells, mine), seconds, 0.0)
    measured = linked(cells.values())
    for low, high in zip(measured, measured[1:]):
        one, other = choose(low, None), choose(high, None)
        assert one == choose(high, one) or not [b for b in sizes if low.block < b < high.block]
        assert one in high.rounds
        assert other in low.rounds


def test_forms_of_one_algorithm_are_not_parted_where_rounds_are_dear(catalogue):
    """A form wins at 64 KiB, another at 256 KiB: 128 KiB is not worth a minute."""
    names = "phased(sync=sender,segment=0,depth=1)", "phased(sync=receiver,segment=0,depth=1)"
    variants = [catalogue.variant(x) for x in ("native", *names)]

    def seconds(label, block):
        best = names[block > 128 << 10]
        return block * 1e-5 * (1.0 if label == best else 1.1)

    for budget, is_expensive in ((0.5, True), (500.0, False)):
        rules = replace(RULES, budget=budget)
        sizes = [64 << 10, 128 << 10, 256 << 10]
        mine = replace(task(variants, sizes, rules), between=False)
        cells = {}
        answer(STRATEGIES["racing"](cells, mine), seconds, 0.01)
        assert (Workload(8, 128 << 10) in cells) == (not is_expensive)


def test_what_cannot_be_fast_enough_is_not_tried(catalogue):
    """Doubling sends eight times as much as must be."""
    variants = [catalogue.variant(x) for x in ("native", "ring(sync=none)", "doubling")]
    mine = replace(task(variants, [64, 65536]), least=lambda v, n: 1e-7 * v.sent(8, n))
    counted = answer(STRATEGIES["racing"]({}, mine), lambda label, n: 7e-7 * n + 1e-4, 0.01)
    assert {n for label, n in counted if label == "doubling"} == {64}
    assert {n for label, n in counted if label == "ring(sync=none)"} == {64, 65536}


def test_several_launches_are_asked_for(few):
    relaunches = []
    rules = Rules(least=6, most=20, tolerance=0.05, budget=100.0, launches=3)
    answer(STRATEGIES["racing"]({}, task(few, [1, 64], rules)), cost, 0.01, relaunches=relaunches)
    assert len(relaunches) == 2


def test_a_second_table_serves_where_needs_are_not_met(catalogue):
    variants = [catalogue.variant(x) for x in ("native", "ring(sync=none)", "pair(sync=none)")]
    records = [
        Record(Workload(8, b), v.label, n, sample(t))
        for b in (1, 1024)
        for n in range(9)
        for v, t in zip(variants, (3.0, 2.0, 1.0))
    ]
    tables = decide(cells_of(records, variants), lambda _: [1, 1024], variants[0])
    assert [t.cutoffs[0].variant.label for t in tables] == ["pair(sync=none)", "ring(sync=none)"]
    assert not tables[1].requires


def test_who_loses_at_the_next_block_stands_on_the_brink(few):
    """The ring is 5 % ahead at 8 KiB without a loss, but loses segments at 16 KiB."""
    low = filled(few, 8192, ring=[1e-2] * 9, light=[1.05e-2] * 9)
    high = filled(few, 16384, ring=[2e-2] * 9, light=[2.1e-2] * 9)
    assert decide_table([low, high], [8192, 16384], few[0]).choice(8192) == few[1]
    lossy = {n: Sample((2e-2,), ((0, 10),)) for n in range(9)}
    high.rounds[few[1]] = lossy
    assert decide_table([low, high], [8192, 16384], few[0]).choice(8192) == few[2]


def test_the_second_table_has_finalists_of_its_own(catalogue):
    """The ring left the race for what a table without needs cannot have."""
    variants = [catalogue.variant(x) for x in ("native", "ring(sync=none)", "pair(sync=none)")]
    records = [
        Record(Workload(8, 1), v.label, n, sample(t))
        for n in range(9)
        for v, t in zip(variants, (3.0, 2.0, 1.0))
        if n < 3 or v != variants[1]
    ]
    tables = decide(cells_of(records, variants), lambda _: [1], variants[0])
    assert [t.cutoffs[0].variant.label for t in tables] == ["pair(sync=none)", "ring(sync=none)"]


def test_every_number_of_ranks_has_a_table(catalogue, few):
    cells = {
        Workload(n, 64): Cell(Workload(n, 64), filled(few, native=[1.0] * 9, ring=[0.5] * 9).rounds)
        for n in (4, 16)
    }
    assert [t.ranks for t in decide(cells, lambda _: [64], few[0])] == [16, 4]


@pytest.mark.parametrize("ring, winner", [(0.5, "ring(sync=none)"), (2.0, "native")])
def test_sizes_that_were_not_reached_are_left_to_native(few, ring, winner):
    cell = filled(few, block=64, native=[1.0] * 9, ring=[ring] * 9)
    table = decide_table([cell], [1, 64, 4096], few[0])
    assert [(c.most, c.variant.label) for c in table.cutoffs] == [(64, winner), (None, "native")]
    assert table.cutoffs[-1].why.startswith("not measured")


def test_cut_offs_are_where_times_cross(few):
    """Native is 20 % ahead at 64 B, the ring 20 % at 256 B: they cross at 128."""
    low = filled(few, block=64, native=[1.0] * 9, ring=[1.2] * 9)
    high = filled(few, block=256, native=[1.2] * 9, ring=[1.0] * 9)
    table = decide_table([low, high], [64, 256], few[0])
    assert table.cutoffs[0].most == pytest.approx(128, abs=1)
    near = filled(few, block=256, native=[1.06] * 9, ring=[1.0] * 9)
    assert decide_table([low, near], [64, 256], few[0]).cutoffs[0].most > 180


# ---- recorded samples


def test_recorded_rounds_come_back_whole_and_in_order(few):
    native, ring, _, bruck = few
    records = [
        Record(Workload(8, 1), "native", 0, sample(1.0)),
        Record(Workload(8, 1), "ring(sync=none)", 0, sample(2.0)),
        Record(Workload(8, 1), "native", 1, sample(1.5)),
        Record(Workload(8, 1), "ring(sync=none)", 1, sample(2.5)),
        Record(Workload(8, 1), "native", 2, sample(1.7)),
        Record(Workload(8, 1), "bruck(radix=2)", failure="wrong data"),
        Record(Workload(8, 1), void="a hog", rounds=(0,)),
    ]
    recorded = Recorded(records)
    labels = ["native", "ring(sync=none)", "bruck(radix=2)"]
    number, samples = recorded.take(Workload(8, 1), labels)
    assert (number, sorted(s.seconds for s in samples.values())) == (1, [1.5, 2.5])
    assert recorded.take(Workload(8, 1), labels) is None  # round 2 is not whole
    assert recorded.next_number(Workload(8, 1)) == 3
    assert recorded.take(Workload(4, 1), ["native"]) is None
    assert recorded.failures == {"bruck(radix=2)": "wrong data"}


def test_a_bench_knows_all_efforts():
    from search.cli.verbs import bench

    assert bench.SECONDS.keys() == bench.LAUNCHES.keys() == EFFORTS.keys()


def test_efforts_differ():
    assert EFFORTS["quick"].budget < EFFORTS["normal"].budget < EFFORTS["thorough"].budget


@pytest.mark.parametrize("path", DATA, ids=lambda path: Path(path).name.partition(".")[0])
def test_racing_is_nearly_exhaustive_on_recorded_clusters(catalogue, monkeypatch, path):
    """Real exhaustive searches (tests/data/README.md), replayed in some orders of chance."""
    monkeypatch.setattr(comparison, "REPLAYS", 3)
    both = {name: STRATEGIES[name] for name in ("exhaustive", "racing")}
    monkeypatch.setattr(comparison, "STRATEGIES", both)
    console = Console(width=120, quiet=True)
    expects = read_foreseen(foreseen_beside(path))
    assert expects
    results = compare_strategies(
        console, path.name, any_journal(path).records, catalogue.variant, expects
    )
    exhaustive, *races = results
    assert [race.strategy for race in races] == ["racing, with the model", "racing"]
    for race, most in zip(races, (0.03, 0.08)):  # the guide has what twenty replays lose
        assert race.seconds < 0.08 * exhaustive.seconds
        assert sum(race.known) / len(race.known) < most
    assert exhaustive.visits > 5000


def test_families_are_compared(catalogue, capsys):
    path = next(path for path in DATA if "two-switches" in str(path))
    found = compare_families(Console(), any_journal(path).records, catalogue)
    said = capsys.readouterr().out
    best = {workload.block: next(iter(families)) for workload, families in found.items()}
    assert best[16384] == "phased"
    for block, row in zip(best, said.splitlines()[2:]):
        assert "1.00" in row, block
    idle = said.splitlines()[-1]
    assert "never the best: " in idle
    assert "phased" not in idle
