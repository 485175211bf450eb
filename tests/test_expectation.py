"""The model's use: what racing begins with, what it leaves out, and what is kept of it."""

import gzip
from dataclasses import replace
from types import SimpleNamespace

import pytest

from search.catalogue.collective import Collective
from search.errors import UserError
from search.files import read_json
from search.measure.network import Network
from search.model.expectation import (
    MOST_BYTES,
    Expectations,
    Kept,
    foreseen_beside,
    keep,
    read_foreseen,
    read_predictions,
    start_model,
    write_foreseen,
)
from search.results.samples import Interval, Sample
from search.results.workload import Team
from search.strategy.promise import Promises
from search.strategy.racing import FIRST, HOPELESS, Model, entrants
from search.strategy.request import EFFORTS, Expectation, Task

from .test_network import message

ALLTOALL = Collective("alltoall", "MPI_Alltoall")
ONE = Interval(1e-5, 1e-5, 1e-5)
LABELS = ("native", "ring(sync=none)", "ring(sync=light)", "bruck(radix=2)", "bruck(radix=8)")


class Simulator:
    """Predicts seconds that are given, with losses where they differ without."""

    def __init__(self, seconds, buffer=1 << 15):
        self.world = SimpleNamespace(buffer=buffer)
        self.seconds, self.asked = seconds, []

    def predict(self, variant, block, lossless=False):
        self.asked.append((variant.label, block, lossless))
        known = self.seconds.get(variant.label)
        if known is None:
            return None
        lossy, least = known
        return Sample((least,)) if lossless or lossy == least else Sample((lossy,), ((0, 9),))

    def close(self):
        self.seconds = {}


@pytest.fixture
def few(catalogue):
    return [catalogue.variant(label) for label in LABELS]


def task(few, expected):
    names = {variant.label: variant for variant in few}
    known = {names[label]: expectation for label, expectation in expected.items()}
    return Task(
        8, (1 << 14,), tuple(few), EFFORTS["quick"], lambda v: [],
        expects=lambda variant, block: known.get(variant),
    )  # fmt: skip


def test_each_variant_is_predicted_once_and_the_librarys_own_never(few):
    simulator = Simulator({"ring(sync=none)": (2e-3, 2e-3)})
    model = Expectations(simulator, Team(8), ALLTOALL)
    assert [model.of(variant, 1024) for variant in few * 2].count(None) == 8
    assert sorted(simulator.asked) == sorted((label, 1024, False) for label in LABELS[1:])
    assert model.of(few[1], MOST_BYTES) is None


def test_who_loses_in_the_model_is_asked_what_it_would_do_without(few):
    model = Expectations(Simulator({"bruck(radix=8)": (9e-3, 2e-3)}), Team(8), ALLTOALL)
    expected = model.of(few[4], 65536)
    assert expected.seconds > 9e-3 and expected.least == 2e-3 and not expected.is_safe


def test_what_fits_into_a_port_or_is_free_of_contention_cannot_lose(catalogue):
    labels = ("ring(sync=none)", "phased(sync=receiver,segment=0,depth=1)")
    ring, phased = (catalogue.variant(label) for label in labels)
    model = Expectations(Simulator(dict.fromkeys(labels, (1e-3, 1e-3))), Team(8), ALLTOALL)
    assert model.of(ring, 64).is_safe and not model.of(ring, 65536).is_safe
    assert model.of(phased, 65536).is_safe
    unknown = Expectations(
        Simulator(dict.fromkeys(labels, (1e-3, 1e-3)), buffer=0), Team(8), ALLTOALL
    )
    assert not unknown.of(ring, 64).is_safe


def test_an_end_of_the_simulator_ends_no_search(few):
    from search.errors import EnvironmentFailure

    class Dead(Simulator):
        def predict(self, variant, block, lossless=False):
            raise EnvironmentFailure("the simulator ended")

    assert Expectations(Dead({}), Team(8), ALLTOALL).of(few[1], 64) is None


def test_nothing_is_hopeless_beside_what_incast_may_hit(few):
    """A flow model prunes nothing: the best one's time may be far too good."""
    slow, fast = Expectation(9e-3, 9e-3, False), Expectation(1e-3, 1e-3, False)
    mine = task(few, {"ring(sync=none)": slow, "bruck(radix=2)": fast})
    assert not Model(mine, few, 1 << 14).is_hopeless(few[1])
    safe = task(few, {"ring(sync=none)": slow, "bruck(radix=2)": replace(fast, is_safe=True)})
    assert Model(safe, few, 1 << 14).is_hopeless(few[1])


def test_who_is_slow_for_its_losses_only_is_not_hopeless(few):
    safe = Expectation(1e-3, 1e-3, True)
    for least, hopeless in ((0.9 * HOPELESS * 1e-3, False), (1.1 * HOPELESS * 1e-3, True)):
        lossy = Expectation(250e-3, least, False)
        mine = task(few, {"ring(sync=none)": lossy, "bruck(radix=2)": safe})
        assert Model(mine, few, 1 << 14).is_hopeless(few[1]) == hopeless


def test_a_race_begins_with_what_the_model_ranks_first(few):
    """Also with what would not have been there: no number that is not the least one is, else."""
    safe = {
        label: Expectation(s * 1e-3, s * 1e-3, True) for label, s in zip(LABELS[1:], (9, 9, 9, 1))
    }
    mine = task(few, safe)
    assert few[4] not in entrants(
        replace(mine, expects=lambda v, b: None), none(mine), 1 << 14, 1.8
    )
    first = entrants(mine, none(mine), 1 << 14, 1.8)
    assert few[0] in first and few[4] in first
    assert few[1] not in first  # hopeless
    assert len(Model(mine, few[1:], 1 << 14).first) == FIRST


def none(mine):
    """Promises where nothing is measured."""
    return Promises([], mine.sizes)


def network() -> Network:
    sizes = (message(1, "immediate"), message(65536, "delivered"))
    return Network(sizes, {"library": ONE}, ONE, *[1e-6] * 8, (), (), (1e7,))


def test_a_tuning_that_goes_on_expects_what_it_did(tmp_path):
    path, other = tmp_path / "model.json", replace(network(), alpha=5.0)
    assert start_model(path, "f", network(), []) == network()
    assert start_model(path, "f", other, ["a record"]) == network()
    assert start_model(path, "g", other, ["a record"]) == other  # another cluster's
    assert start_model(path, "g", network(), []) == network()  # begun anew


@pytest.mark.parametrize("content", ["", "{", "[]", '{"network": 7, "fingerprint": "f"}'])
def test_a_damaged_file_is_as_none(tmp_path, content):
    path = tmp_path / "model.json"
    path.write_text(content)
    assert read_predictions(path) == {}
    assert start_model(path, "f", network(), ["a record"]) == network()
    assert read_json(path, Kept).network == network()


def test_what_was_expected_is_kept(tmp_path, few):
    path = tmp_path / "model.json"
    model = Expectations(Simulator({"ring(sync=none)": (2e-3, 2e-3)}), Team(8), ALLTOALL)
    for variant in few:
        model.of(variant, 1024)
    start_model(path, "f", network(), [])
    keep(path, [model])
    assert read_predictions(path) == {(Team(8), 1024, "ring(sync=none)"): 2e-3}
    assert start_model(path, "f", replace(network(), alpha=5.0), ["a record"]) == network()


def test_what_was_expected_stands_beside_a_journal(few, tmp_path):
    model = Expectations(Simulator({"ring(sync=none)": (2e-3, 1e-3)}), Team(8), ALLTOALL)
    known = [model.of(variant, 64) for variant in few[:2]]
    path = foreseen_beside(tmp_path / "x.jsonl.gz")
    assert path.name == "x.model.json.gz" and read_foreseen(path) is None
    write_foreseen(path, model)
    expects = read_foreseen(path)
    assert [expects(variant, 64) for variant in few[:2]] == known and any(known)
    assert expects(few[1], 65) is None
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match="not what a model expected"):
        read_foreseen(path)
