"""What noise cannot buy: which rows a table gets, from made-up samples."""

import random

import pytest

from search.decide.claim import beats, fastest, winners_of
from search.decide.rows import decide, decide_table, searched_winners
from search.results.cell import Cell, cells_of
from search.results.record import Disturbance, Record, disturbed_rounds
from search.results.samples import Sample
from search.results.workload import Workload
from search.strategy.confirming import confirming
from search.strategy.request import Answer, Relaunch, Round, Rules, Task

LABELS = ("native", "ring(sync=none)", "ring(sync=light)", "bruck(radix=2)")
SPREAD = 0.02


@pytest.fixture(scope="module")
def few(catalogue):
    return [catalogue.variant(label) for label in LABELS]


def cell(variants, times, block=64, **others):
    """A cell with the times of some variants, round by round."""
    rounds = {
        variant: {n: s if isinstance(s, Sample) else Sample((s,)) for n, s in enumerate(mine)}
        for variant, mine in zip(variants, times)
        if mine
    }
    return Cell(Workload(8, block), rounds, **others)


def noisy(seconds, share, seed, count=9):
    chance = random.Random(seed)
    return [seconds * chance.uniform(1 - share, 1 + share) for _ in range(count)]


def test_who_is_faster_on_the_average_only_has_no_row(few):
    """Whatever the noise: of four variants that are the same the library's own stays."""
    for seed in range(50):
        same = cell(few, [noisy(1e-3, 0.3, 4 * seed + i) for i in range(4)])
        assert fastest(same, few[0], SPREAD) == few[0]


def test_who_is_faster_for_sure_has_one(few):
    sure = cell(few, [[1.1e-3] * 9, [1e-3] * 9])
    assert fastest(sure, few[0], SPREAD) == few[1]
    hardly = cell(few, [[1.02e-3] * 9, [1e-3] * 9])
    assert fastest(hardly, few[0], SPREAD) == few[0]


def test_of_several_the_one_that_is_sure_is_chosen(few):
    """The ring is a little faster, but nobody knows by how much."""
    mine = cell(few, [[2e-3] * 9, noisy(0.95e-3, 0.4, 1), [1e-3] * 9])
    assert fastest(mine, few[0], SPREAD) == few[2]


def test_small_blocks_of_a_disturbed_machine_need_a_wider_margin(few):
    def label(block, is_disturbed, bound):
        found = {Workload(8, block): cell(few, [[1.3e-3] * 9, [1e-3] * 9], block)}
        tables = decide(found, lambda _: [block], few[0], lambda *_: bound, None, is_disturbed)
        return tables[0].cutoffs[0].variant.label

    assert label(64, False, 1e-4) == label(8192, True, 9e-4) == "ring(sync=none)"
    assert label(64, True, 9e-4) == label(8192, True, 1e-4) == "native"


def test_losing_segments_again_and_again_is_no_luck(few):
    """Bodies are alike, but one meets time-outs in some of its calls."""
    lossy = [Sample((t,), ((0, 30),), 1) for t in [1e-2] * 6 + [0.21] * 3]
    assert beats(cell(few, [lossy, [1e-2] * 9]), few[1], few[0], SPREAD)
    once = [Sample((0.21,), ((0, 30),), 1), *[Sample((1e-2,))] * 8]
    assert not beats(cell(few, [once, [1e-2] * 9]), few[1], few[0], SPREAD)


def test_a_row_goes_on_where_nobody_is_known_to_be_better(few):
    low = cell(few, [[2e-3] * 9, [1e-3] * 9, [1.5e-3] * 9], block=64)
    high = cell(few, [[2e-3] * 9, [1.02e-3] * 9, [1e-3] * 9], block=128)
    assert winners_of([low, high], few[0], SPREAD) == [few[1], few[1]]
    beyond = cell(few, [[2e-3] * 9, [1.3e-3] * 9, [1e-3] * 9], block=128)
    assert winners_of([low, beyond], few[0], SPREAD) == [few[1], few[2]]


def test_ratios_are_paired_so_that_drift_cancels(few):
    drift = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    mine = cell(few, [[3 * x for x in drift], drift])
    assert mine.ratio(few[0], few[1]).high == 3.0
    assert mine.claim(few[0], few[1], SPREAD).low > 2.8


def test_what_was_timed_in_unlike_ways_is_not_compared(few):
    """Where ranks met no start calls are timed by barriers, which makes them shorter."""
    mine = cell(few, [[Sample((1e-3,), late=(1e-5,))] * 9, [Sample((5e-4,))] * 9])
    assert mine.pairs(few[0], few[1]) == []


def test_disturbed_rounds_count_less_and_widen_the_interval(few):
    times = [[1e-3] * 12, [1e-3] * 12]
    calm = cell(few, times)
    for n in range(9, 12):
        calm.rounds[few[0]][n] = Sample((3e-3,))
    everything = calm.claim(few[0], few[1], SPREAD)
    calm.disturbed = frozenset(range(9, 12))
    counted = calm.claim(few[0], few[1], SPREAD)
    assert counted.median == pytest.approx(1.0)
    assert counted.high < everything.high
    mostly = cell(few, [[1e-3] * 4 + [3e-3] * 8, [1e-3] * 12], disturbed=frozenset(range(4, 12)))
    claim = mostly.claim(few[0], few[1], SPREAD)
    assert (claim.median, claim.high) == (pytest.approx(1.0), pytest.approx(3.0))


def test_visits_during_which_the_machine_stood_still_count_less(few):
    calm = [[1e-3] * 12, [1e-3] * 12]
    mine = cell(few, calm)
    for n in range(6):
        mine.rounds[few[1]][n] = Sample((0.3,), ((0, 1),), stalled=0.3)
    assert mine.score(few[1]) == pytest.approx(1e-3)
    claim = mine.claim(few[1], few[0], SPREAD)
    assert claim.median == pytest.approx(1.0)
    assert claim.high > 10


def test_only_more_than_the_usual_steal_disturbs():
    def record(n, steal, woke=1e-4):
        return Record(Workload(8, 64), rounds=(n,), disturbance=Disturbance(steal, woke))

    usual = [record(n, 0.3) for n in range(9)]
    assert disturbed_rounds(usual) == {}
    assert disturbed_rounds([*usual, record(9, 0.6)]) == {Workload(8, 64): {9}}
    assert disturbed_rounds([*usual, record(9, 0.3, 0.1)]) == {Workload(8, 64): {9}}


RULES = Rules(least=6, most=20, tolerance=0.05, budget=1.0)


def confirmed(variants, found, winners, seconds, sizes):
    """The rounds that confirming asks for, answered with made-up times."""
    task = Task(8, sizes, tuple(variants), RULES, lambda variant: [])
    search, rounds, number = confirming(found, task, winners), [], 1000
    answer = None
    try:
        while True:
            wanted = search.send(answer)
            answer = Answer()
            if isinstance(wanted, Round):
                assert wanted.confirms
                rounds.append(wanted)
                number += 1
                times = {
                    v: Sample((seconds(v, wanted.workload.block),), launch=1)
                    for v in wanted.variants
                }
                answer = Answer(number, times)
            else:
                assert isinstance(wanted, Relaunch)
                assert not rounds
    except StopIteration:
        return rounds


def test_rows_are_confirmed_at_their_ends_and_in_the_middle(few):
    found = {
        Workload(8, b): cell(few, [[2e-3] * 9, [1e-3] * 9, [1.1e-3] * 9], block=b)
        for b in (1, 64, 1024, 4096, 65536)
    }
    winners = [(1, few[0]), (64, few[1]), (1024, few[1]), (4096, few[1]), (65536, few[2])]
    sizes = (1, 8, 64, 1024, 4096, 32768, 65536)
    rounds = confirmed(few, found, winners, lambda v, b: 1e-3, sizes)
    met = {r.workload.block: {v.label for v in r.variants} for r in rounds}
    assert met[64] >= {"native", "ring(sync=none)", "ring(sync=light)"}
    assert met[4096] >= {"native", "ring(sync=none)", "ring(sync=light)"}
    assert set(met) == {1, 8, 64, 1024, 4096, 32768, 65536}  # 32 KiB was never timed
    assert [r.workload.block for r in rounds] == sorted(r.workload.block for r in rounds)


def test_what_arises_from_confirming_is_confirmed_among_those_next_to_it(few):
    """A variant serves 512 bytes alone that was not timed again there."""
    found = {
        Workload(8, b): cell(few, [[2e-3] * 9, [1e-3] * 9, [1.1e-3] * 9], block=b)
        for b in (64, 512, 4096)
    }
    searched = [(64, few[1]), (512, few[1]), (4096, few[1])]
    first = confirmed(few, found, searched, lambda v, b: 1e-3, (64, 512, 4096))
    assert {r.workload.block for r in first} == {64, 512, 4096}
    found[Workload(8, 512)].confirming = frozenset()
    decided = [(64, few[1]), (512, few[2]), (4096, few[1])]
    second = confirmed(few, found, decided, lambda v, b: 1e-3, (64, 512, 4096))
    assert {r.workload.block for r in second} == {512}
    assert set(second[0].variants) == {*few[:3]}
    assert confirmed(few, found, decided, lambda v, b: 1e-3, (64, 512, 4096)) == []


def test_where_native_serves_all_there_is_nothing_to_confirm(few):
    found = {Workload(8, 64): cell(few, [[1e-3] * 9])}
    assert confirmed(few, found, [(64, few[0])], lambda v, b: 1e-3, (64,)) == []


def test_a_row_that_loses_when_confirmed_falls_back_and_that_is_said(few):
    """The ring was 10 % faster in the search, by luck, and is as fast as native in fact."""
    found = {Workload(8, 64): cell(few, [[1.1e-3] * 9, [1e-3] * 9])}
    assert searched_winners([*found.values()], few[0]) == [(64, few[1])]
    confirmed(few, found, [(64, few[1])], lambda v, b: 1e-3, (64,))
    (row,) = decide_table([*found.values()], [64], few[0]).cutoffs
    assert row.variant == few[0]
    assert row.evidence.fell == "ring(sync=none)"
    assert "led in the search" in row.why


def test_a_row_that_is_confirmed_stays(few):
    found = {Workload(8, 64): cell(few, [[1.2e-3] * 9, [1e-3] * 9])}
    confirmed(few, found, [(64, few[1])], lambda v, b: 1.2e-3 if v == few[0] else 1e-3, (64,))
    (row,) = decide_table([*found.values()], [64], few[0]).cutoffs
    assert row.variant == few[1]
    assert (row.evidence.launches, row.evidence.fell) == (2, None)


def test_what_was_not_confirmed_where_others_were_has_no_row(few):
    """A disturbance made native slow while one was timed beside it."""
    found = {Workload(8, 64): cell(few, [[2e-3] * 9, [1e-3] * 9, [1.01e-3] * 9])}
    winner = searched_winners([*found.values()], few[0])[0][1]
    other = few[2] if winner == few[1] else few[1]
    mine = found[Workload(8, 64)]
    for n in range(20):
        for variant in (few[0], winner):
            mine.rounds[variant][100 + n] = Sample((1e-3,), launch=1)
    mine.confirming = frozenset(range(100, 120))
    (row,) = decide_table([mine], [64], few[0]).cutoffs
    assert row.variant not in (other, winner)


def test_a_block_of_which_little_is_known_follows_its_neighbours(few):
    """The ring is twice as fast in the middle, too, but three rounds do not prove it."""
    sure = [noisy(2e-3, 0.05, seed) for seed in range(2)]
    ends = [cell(few, [mine, noisy(1e-3, 0.05, 2)], 64 * n) for mine, n in zip(sure, (1, 4))]
    middle = cell(few, [[2e-3, 1e-3, 2.1e-3], [1e-3, 3e-3, 1e-3]], 128)
    assert fastest(middle, few[0], SPREAD) == few[0]
    assert winners_of([ends[0], middle, ends[1]], few[0], SPREAD) == [few[1]] * 3


def test_the_journal_tells_what_confirmed(few):
    records = [
        Record(Workload(8, 64), v.label, n, Sample((1e-3,), launch=n), confirms=n == 1)
        for n in range(2)
        for v in few[:2]
    ]
    (mine,) = cells_of(records, few).values()
    assert mine.confirming == {1}
    assert [*mine.searched().rounds[few[0]]] == [0]
