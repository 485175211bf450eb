"""What the schedule model expects of variants, as strategies ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search.catalogue.algorithm import Variant
from search.catalogue.collective import Collective
from search.errors import EnvironmentFailure, UserError
from search.files import read_json, read_json_if_whole, write_json
from search.measure.network import Network
from search.model.simulator import Simulator
from search.results.samples import score
from search.results.workload import Team
from search.strategy.request import Expectation, Expects

MOST_BYTES = 1 << 22
"""Of all blocks of a call: larger ones take too long to predict, and are as their smaller ones."""
FRAME = 114
"""Bytes that a block takes beside its own, where it is one frame: WIRE and HEADER of the model."""


class Expectations:
    """Of one number of ranks; each variant and block is predicted once."""

    def __init__(self, simulator: Simulator, team: Team, collective: Collective) -> None:
        self._simulator, self._team = simulator, team
        ranks = self._ranks = team.ranks
        self._blocks = ranks * (1 + collective.crossing(1, ranks - 1))
        self._known: dict[tuple[Variant, int], Expectation | None] = {}

    def of(self, variant: Variant, block: int) -> Expectation | None:
        """None of the library's own, of what cannot serve, and where it would take too long."""
        if (variant, block) not in self._known:
            self._known[variant, block] = self._predict(variant, block)
        return self._known[variant, block]

    def close(self) -> None:
        """End the simulator."""
        self._simulator.close()

    @property
    def lines(self) -> list[tuple[int, str, int, str, float]]:
        """Ranks, placement, block, label and seconds of all that was expected so far."""
        return [
            (self._ranks, self._team.placement, block, label, seconds)
            for block, label, seconds, *_ in self.foreseen.expected
        ]

    @property
    def foreseen(self) -> Foreseen:
        """All that was expected so far, whole."""
        known = sorted(
            (block, variant.label, e.seconds, e.least, e.is_safe)
            for (variant, block), e in self._known.items()
            if e
        )
        return Foreseen(self._ranks, tuple(known))

    def _predict(self, variant: Variant, block: int) -> Expectation | None:
        is_large = self._blocks * block > MOST_BYTES
        if variant.body.algorithm.is_native or is_large:
            return None
        try:
            return self._ask(variant, block)
        except EnvironmentFailure:  # the search goes on without it
            return None

    def _ask(self, variant: Variant, block: int) -> Expectation | None:
        sample = self._simulator.predict(variant, block)
        if sample is None:
            return None
        least = self._simulator.predict(variant, block, lossless=True) if sample.resent else sample
        buffer = self._simulator.world.buffer
        fits = self._ranks**2 // 4 * (block + FRAME) <= buffer
        return Expectation(
            score([sample]),
            score([least or sample]),
            not sample.resent and (variant.is_contention_free or fits),
        )


@dataclass(frozen=True)
class Kept:
    """What build/model.json holds: the parameters of a tuning's model, and the seconds that it
    expected, by ranks, placement, block and label."""

    fingerprint: str
    network: Network
    predicted: tuple[tuple[int, str, int, str, float], ...] = ()


@dataclass(frozen=True)
class Foreseen:
    """What a model expected on one number of ranks: block, label, seconds, the least of them, and
    whether no port can lose a frame (``Expectation``)."""

    ranks: int
    expected: tuple[tuple[int, str, float, float, bool], ...]


def foreseen_beside(journal: Path) -> Path:
    """Where that stands for a journal: x.model.json, packed where the journal is."""
    stem, _, packed = journal.name.partition(".jsonl")
    return journal.with_name(f"{stem}.model.json{packed}")


def write_foreseen(path: Path, expectations: Expectations) -> None:
    """Write all that was expected so far."""
    write_json(path, expectations.foreseen)


def read_foreseen(path: Path) -> Expects | None:
    """What a model expected, as strategies ask it; None if nobody asked it."""
    try:
        known = read_json(path, Foreseen)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not what a model expected: {error}") from error
    found = {
        (block, label): Expectation(seconds, least, is_safe)
        for block, label, seconds, least, is_safe in known.expected
    }
    return lambda variant, block: found.get((block, variant.label))


def start_model(
    path: Path, fingerprint: str, network: Network, recorded: Sequence[object]
) -> Network:
    """The parameters of a tuning's model, kept in a file. One of which something is ``recorded``
    has those with which it began: it expects the same as if it had not been interrupted."""
    kept = read_json_if_whole(path, Kept)
    if recorded and kept and kept.fingerprint == fingerprint:
        return kept.network
    write_json(path, Kept(fingerprint, network))
    return network


def keep(path: Path, expectations: Iterable[Expectations]) -> None:
    """Add to the file what was expected."""
    kept = read_json_if_whole(path, Kept)
    if kept:
        lines = tuple(line for each in expectations for line in each.lines)
        write_json(path, replace(kept, predicted=lines))


def read_predictions(path: Path) -> dict[tuple[Team, int, str], float]:
    """What ``keep`` kept: seconds by team, block and label."""
    kept = read_json_if_whole(path, Kept)
    lines = kept.predicted if kept else ()
    return {(Team(n, placement), b, label): seconds for n, placement, b, label, seconds in lines}
