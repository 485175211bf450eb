"""Records: what was measured of a workload, and which rounds count."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from search.results.samples import Sample
from search.results.workload import Workload

MORE_STEAL = 0.1
"""A round is disturbed if the hypervisor took this share more than it usually did,"""
LATE_WAKE, LATER_WAKE = 0.01, 4.0
"""or if a process woke so many seconds late, and so many times later than usually."""

Rounds = dict[int, dict[str, Sample]]
"""By number: the samples of each variant, by label, that were timed together."""


@dataclass(frozen=True)
class Disturbance:
    """What kept the worst host from its work: the share of its processors' time that the hypervisor
    gave to others (``steal``), and how late a sleeping process woke, in seconds (``woke``)."""

    steal: float
    woke: float


@dataclass(frozen=True)
class Record:
    """One line: a sample of a variant at a block in a round, a failure of it, void rounds, or what
    disturbed rounds.

    ``scheme`` says how calls were timed (probes/timing.h); ``rounds`` are those that are void, or
    that were under way while a disturbance was measured.
    """

    workload: Workload
    label: str = ""
    round: int = 0
    sample: Sample | None = None
    failure: str | None = None
    void: str | None = None
    rounds: tuple[int, ...] = ()
    restart: bool = False
    """the strategy gave them up, which it does again when it meets them again"""
    scheme: str = "barrier"
    disturbance: Disturbance | None = None
    confirms: bool = False
    """it was timed to confirm what the search found"""


def rounds_of(records: Iterable[Record], restarted: bool = False) -> dict[Workload, Rounds]:
    """The rounds that are not void; with ``restarted`` those too that a strategy gave up."""
    records = list(records)
    void = {
        (record.workload, number)
        for record in records
        if record.void is not None and not (restarted and record.restart)
        for number in record.rounds
    }
    found: dict[Workload, Rounds] = {}
    for record in records:
        if record.sample and (record.workload, record.round) not in void:
            rounds = found.setdefault(record.workload, {})
            rounds.setdefault(record.round, {})[record.label] = record.sample
    return found


def confirming_rounds(records: Iterable[Record]) -> dict[Workload, set[int]]:
    """The rounds that confirm what a search found."""
    found: dict[Workload, set[int]] = {}
    for record in records:
        if record.confirms:
            found.setdefault(record.workload, set()).add(record.round)
    return found


def usual_disturbance(records: Iterable[Record]) -> Disturbance:
    """What was usual for the time of the records: medians."""
    seen = [record.disturbance for record in records if record.disturbance]
    if not seen:
        return Disturbance(0.0, 0.0)
    return Disturbance(
        statistics.median(one.steal for one in seen), statistics.median(one.woke for one in seen)
    )


def disturbed_rounds(records: Iterable[Record]) -> dict[Workload, set[int]]:
    """The rounds that were disturbed beyond what was usual for their machine."""
    records = list(records)
    usual = usual_disturbance(records)
    most = Disturbance(usual.steal + MORE_STEAL, max(LATE_WAKE, LATER_WAKE * usual.woke))
    found: dict[Workload, set[int]] = {}
    for record in records:
        here = record.disturbance
        if here and (here.steal > most.steal or here.woke > most.woke):
            found.setdefault(record.workload, set()).update(record.rounds)
    return found
