"""How the model is judged: by measurements that can tell who is best."""

import pytest

from search.analysis import validation
from search.analysis.validation import agreement, final, leaders, whole
from search.results.cell import Cell
from search.results.samples import Sample
from search.results.workload import Workload
from search.strategy.request import Answer, Failure

from .survival import build_directory
from .test_configure import search

HERE = Workload(8, 1024)


@pytest.fixture
def variants(catalogue):
    return catalogue.variants(8)[1:31]  # without the library's own


def filled(times):
    """A cell with a round for each column of seconds."""
    rounds = {v: {n: Sample((s,)) for n, s in enumerate(mine)} for v, mine in times.items()}
    return Cell(HERE, rounds)


def played(search, seconds, failing=()):
    """Answer a search from seconds by variant; how many rounds of how many it wanted."""
    wanted = []
    try:
        request = next(search)
        while True:
            wanted.append(len(request.variants))
            outcomes = {
                v: Failure("broken") if v in failing else Sample((seconds[v],))
                for v in request.variants
            }
            request = search.send(Answer(len(wanted) - 1, outcomes))
    except StopIteration:
        return wanted


def test_leaders_are_the_best_of_both_rankings(variants):
    cell = filled({v: [1.0 + i] for i, v in enumerate(variants)})
    predicted = {v: 100.0 - i for i, v in enumerate(variants)}
    leading = leaders(cell, predicted)
    assert leading[: validation.LEADERS] == tuple(variants[: validation.LEADERS])
    assert leading[validation.LEADERS :] == tuple(variants[-1:-7:-1])


def test_a_final_goes_on_for_a_while(variants):
    few = variants[:4]
    cells = {}
    short = played(final(cells, {HERE: few}), dict.fromkeys(few, 1e-4))
    assert short == [4] * validation.MOST_ROUNDS
    assert all(len(cells[HERE].rounds[v]) == validation.MOST_ROUNDS for v in few)
    long = played(final({}, {HERE: few}), dict.fromkeys(few, 1.0))
    assert long == [4] * validation.LEAST_ROUNDS


def test_what_fails_in_a_final_is_out(variants):
    cells = {}
    wanted = played(final(cells, {HERE: variants[:3]}), dict.fromkeys(variants, 1.0), variants[:1])
    assert wanted[:3] == [3, 2, 2]
    assert list(cells[HERE].rounds) == list(variants[1:3])
    assert played(final({}, {HERE: variants[:1]}), {}, variants[:1]) == [1]


def test_rounds_of_some_do_not_count_for_all(variants):
    a, b, c = variants[:3]
    cell = filled({a: [1, 2, 3, 4], b: [1, 2, 3], c: [1, 2]})
    assert {v: len(rounds) for v, rounds in whole(cell).rounds.items()} == {a: 2, b: 2, c: 2}
    cell.rounds[c] = {9: Sample((1.0,))}
    assert whole(cell) is cell


def test_the_final_says_who_is_best(variants):
    """The one that was lucky among all is not."""
    lucky, good, *others = variants[:6]
    cell = filled({lucky: [0.9], good: [1.0], **{v: [2.0] for v in others}})
    predicted = {v: 1.0 + i for i, v in enumerate([good, *others, lucky])}
    decisive = filled({lucky: [1.5] * 9, good: [1.0] * 9, others[0]: [2.0] * 9})
    row = agreement(cell, decisive, predicted)
    assert (row.best, row.place, row.first, row.loss, row.is_known) == (good, 1, good, 1, False)
    decisive = filled({lucky: [0.9] * 9, good: [1.0] * 9, others[0]: [2.0] * 9})
    row = agreement(cell, decisive, predicted)
    assert (row.best, row.place, row.is_known) == (lucky, 6, True)
    assert row.loss == pytest.approx(1 / 0.9)
    decisive = filled({lucky: [0.5, 1.3, 1.2] * 3, good: [1.3, 0.5, 1.25] * 3})
    row = agreement(cell, decisive, predicted)
    assert row.loss > 1.03 and not row.is_known


@pytest.mark.full
def test_the_model_is_compared_with_an_exhaustive_search(tools, tmp_path):
    place = build_directory(tmp_path / "model", tools)
    options = ["--np=2", "--sizes=64,8K", "--effort=quick", "--accept-noise"]
    assert search(place, "model").returncode == 1
    done = search(place, "configure", *options, "--only=doubling")
    assert done.returncode == 0, done.stderr
    done = search(place, "model")
    assert done.returncode == 1 and "--strategy=exhaustive times all" in done.stderr
    few = ["--only=ring,pair,bruck,simple", "--strategy=exhaustive", "--fresh"]
    done = search(place, "configure", *options, *few)
    assert done.returncode == 0, done.stderr
    journal = place / "build" / "measurements.jsonl"
    before = journal.read_bytes()
    done = search(place, "model")
    assert done.returncode == 0, done.stderr
    assert "predicted best" in done.stdout and "; tau " in done.stdout
    after = journal.read_bytes()
    assert after.startswith(before) and len(after) > 2 * len(before)
    assert search(place, "model").stdout.splitlines()[-1] == done.stdout.splitlines()[-1]
    assert journal.read_bytes() == after
    identity = place / "build" / "fingerprint.json"
    identity.write_text(identity.read_text().replace('"kernel": "', '"kernel": "other '))
    assert search(place, "model").returncode == 1
