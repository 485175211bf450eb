"""Verifying: whether what was tuned is still right, by a short bench of its rows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console
from rich.table import Table

from search.analysis.bench import Plan, Row, Timed, ratio_text
from search.cluster.backends import backend_of
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.topology import FULL_FRAME
from search.decide.decision import DecisionTable, Evidence
from search.errors import summarised
from search.measure.gates import Gates
from search.measure.null_tests import NullTests, null_tests
from search.measure.visits import LOOK_MILLISECONDS, Pace
from search.results.samples import Interval, score
from search.results.workload import Team
from search.sizes import size_text

MOST_ROWS = 8
LARGE = 65536
"""Bytes to each peer at which the wires count, and a call is short."""
SECONDS = 16.0
"""Of all blocks and launches together."""
LAUNCHES = 2
RUNNER_UP = "runner-up"
BETTER = 1.05
"""So many times faster, significantly, must a rival be to make a row wrong."""
OTHER = 1.3
"""By so much a call may take longer, or less, than it did: beyond that the network is another."""
OTHER_RATE = 1.33
"""By so much messages may pass slower or faster between two hosts."""
LONGER, LESS = "it takes longer than it did", "it takes less than it did"


@dataclass(frozen=True)
class Verdict:
    """What a row does now at its block (bytes to each peer): what its rivals take over what it
    takes, what it takes over what it took, and, if it is not right any more, why."""

    block: int
    variant: str
    native: Interval
    runner_up: Interval | None
    then: float
    why: str = ""


def what_matters(table: DecisionTable) -> dict[int, Evidence]:
    """What speaks for the rows of a table that gain most, by block, smallest first."""

    def gain(one: Evidence) -> float:
        return one.native[0] if one.native else 1.0

    known = [row.evidence for row in table.cutoffs if row.evidence]
    kept = sorted(known, key=gain, reverse=True)[:MOST_ROWS]
    return {one.block: one for one in known if one in kept}


def plan(team: Team, blocks: Sequence[int], rivals: Mapping[int, str], pace: Pace) -> Plan:
    """A bench of these blocks in some seconds; ``rivals`` has each one's runner-up."""
    return Plan(
        team,
        blocks,
        SECONDS / len(blocks) / LAUNCHES,
        LAUNCHES,
        {RUNNER_UP: lambda block: rivals[block]},
        pace=pace,
    )


def noise(cluster: Cluster, job: Job, gates: Gates, before: NullTests | None, alltoall: str) -> str:
    """What else the hosts are busy with, or the machine that emulates them, whose tests were
    ``before`` when it was tuned; nothing if they are not. ``alltoall`` is the label of one without
    contention."""
    if backend_of(cluster.backend).can_dilate:
        tests = null_tests(cluster, job, alltoall)
        tests = replace(tests, is_inherent=before is not None and before.is_inherent)
        others = f"others have {tests.others:.0%} of the processors"
        found = [*tests.troubles(cluster.timeout), *([others] if tests.is_disturbed else [])]
    else:
        found = gates.look(job.ask(f"quiet {LOOK_MILLISECONDS}"), Team(cluster.ranks))
    return summarised(found) if found else ""


def judge(row: Row, timed: Timed, evidence: Evidence) -> Verdict:
    """What a bench of a block says of a row. Calls in one frame may take any time: the processors'
    load shows in them."""
    samples = timed.samples("generated")
    runner_up = row.competitors[RUNNER_UP] if evidence.runner_up else None
    then = row.generated.median / evidence.seconds
    why = ""
    if row.ratio.high < 1 / BETTER:
        why = "the library's own is faster now"
    elif runner_up and runner_up.high < 1 / BETTER:
        why = f"{evidence.runner_up} is faster now"
    elif row.block > FULL_FRAME and row.generated.low > OTHER * evidence.seconds:
        why = LONGER
    elif row.block > FULL_FRAME and score(samples) < evidence.seconds / OTHER:
        why = LESS
    return Verdict(row.block, row.variant, row.ratio, runner_up, then, why)


def sure(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Without what they say of times then and now, unless all blocks beyond one frame say the same:
    another network shows in all of them, and one alone has modes of its own."""
    large = {one.why for one in verdicts if one.block > FULL_FRAME}
    if len(large) <= 1:
        return [*verdicts]
    return [replace(one, why="") if one.why in (LONGER, LESS) else one for one in verdicts]


def other_rates(
    hosts: Sequence[str], before: Sequence[float], passes: Sequence[Sequence[float]]
) -> list[str]:
    """Between which ranks messages pass slower or faster than when the cluster was tuned, in words;
    ``hosts`` has each rank's. Bytes a second from each rank to the next: ``before`` and, in several
    passes that must all say so, now."""
    found = []
    for rank, (then, *now) in enumerate(zip(before, *passes)):
        there = hosts[(rank + 1) % len(hosts)]
        is_other = max(now) * OTHER_RATE < then or min(now) > OTHER_RATE * then
        if is_other and there != hosts[rank]:
            found.append(
                f"from {hosts[rank]} to {there} {statistics.median(now) * 8e-6:.3g} Mbit/s of "
                f"payload pass, once {then * 8e-6:.3g}"
            )
    return found


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What is another than it was when the table was tuned, in words."""
    found: list[str] = []
    for key in {**before, **after}:
        then, now = before.get(key), after.get(key)
        if isinstance(then, Mapping) and isinstance(now, Mapping):
            found += changes(then, now)
        elif then != now:
            found.append(f"{key} was {_on_hosts(then)}, is {_on_hosts(now)}")
    return found


def _on_hosts(value: object) -> str:
    """A value for people; of several hosts how many have which."""
    if not isinstance(value, list):
        return str(value)
    counts = Counter(map(str, value)).most_common()
    return ", ".join(f"{one} on {count}" for one, count in counts)


def show(console: Console, verdicts: Sequence[Verdict]) -> None:
    """The table that people read."""
    table = Table(box=box.SIMPLE)
    for heading in ("block", "variant", "native takes", "runner-up takes", "of then", ""):
        table.add_column(heading, justify="left" if heading in ("variant", "") else "right")
    for one in verdicts:
        table.add_row(
            size_text(one.block),
            one.variant,
            _text(one.native),
            _text(one.runner_up) if one.runner_up else "",
            f"{one.then:.2f}",
            one.why,
        )
    console.print(table)


def _text(ratio: Interval) -> str:
    return ratio_text(ratio.median, ratio.low, ratio.high)
