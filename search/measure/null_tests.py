"""Null tests of an emulated cluster: what this machine carries now, and how much slower time must
pass on the cluster for that to be enough.

The processors forward every frame and run every rank. Where they are too few, or others have them,
it is they who would be measured. So all links are slowed down by the same divisor until the links
carry their rate with room to spare; ratios and rankings stay. What keeps this machine from running
at all, a hypervisor or somebody's real-time process, is watched and taken out of the account.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.topology import PAYLOAD_SHARE
from search.cluster.watch import Watch
from search.errors import EnvironmentFailure
from search.results.workload import Workload
from search.timeouts import USUAL

DIVISORS = (1, 2, 4, 8, 16)
FLOW_SECONDS = 2.0
TRIES = 3
LEAST_FLOW = 0.94
LEAST_SHIFT = 0.90
LEAST_ALLTOALL = 0.80
"""Of the bandwidth bound, for an all-to-all in phases."""
MOST_PROCESSOR = 0.75
OTHERS = 0.2
"""Share of the processors that others have, from which on how busy they are tells nothing."""
LEAST_CORES = 2
"""Two hosts that talk to each other have one each."""
LONGEST_STALL = 0.5
"""Of TCP's shortest time-out: a machine that stalls for longer makes TCP send again."""
BETTER = 0.75
"""Twice the time halves what this machine adds to it. A dilation that leaves more than so much is
not worth its time."""
LESS_TO_DO = 0.95
"""Processors that get no less to do than this share of it gain nothing."""
ALLTOALL_BYTES, LEAST_BYTES = 65536, 8192
ALLTOALL_SECONDS = 1.0
LEAST_CALLS, MOST_CALLS = 3, 20
IDLE_SECONDS = 0.4


@dataclass(frozen=True)
class NullTests:
    """What a test of an emulated cluster saw. ``flow``, ``shift`` and ``alltoall`` are payload over
    what the wires allow while this machine ran at all: of one flow, of the slowest of flows from
    every rank to the next at once, and of an all-to-all in phases; ``processors`` is how busy they
    were in it, ``others`` while all ranks were idle, ``steal`` what the hypervisor gave to others;
    ``stall`` is how long the machine stalls, in seconds; ``cores`` are the processors that
    there are for all hosts; ``is_inherent`` is whether the all-to-all was as far from its bound
    where time passed slower: the MPI library keeps it from there, not this machine."""

    flow: float
    shift: float
    alltoall: float
    processors: float
    others: float
    steal: float
    stall: float
    cores: int = 2
    is_inherent: bool = False

    def troubles(self, timeout: float) -> list[str]:
        """Why the cluster cannot be believed; ``timeout`` is TCP's shortest there, in seconds."""
        found = []
        if self.flow < LEAST_FLOW:
            found.append(f"one flow has {self.flow:.0%} of its rate")
        if self.shift < LEAST_SHIFT and self.alltoall < LEAST_ALLTOALL:
            found.append(f"all links at once have {self.shift:.0%} of theirs")
        if self.alltoall < LEAST_ALLTOALL and not self.is_inherent:
            found.append(f"an all-to-all has {self.alltoall:.0%} of its bound")
        if self.others < OTHERS and self.processors > MOST_PROCESSOR:
            found.append(f"the processors are {self.processors:.0%} busy")
        if self.is_stalling(timeout):
            found.append(f"it stalls for {self.stall * 1e3:.0f} ms at a time")
        return found

    @property
    def is_disturbed(self) -> bool:
        """Whether processors are short: others have them, all the time or now and then, or
        there is but one, on which a message between two hosts is all work and no waiting."""
        return self.others >= OTHERS or self.stall > 0 or self.cores < LEAST_CORES

    def is_stalling(self, timeout: float) -> bool:
        """Whether the machine stalls for so long that TCP sends again."""
        return self.stall > LONGEST_STALL * timeout

    def is_better(self, before: NullTests, timeout: float) -> bool:
        """Whether slowing down from what was ``before``, where this was TCP's ``timeout``, helped:
        links carry more of their rate, processors have less to do, or stalls matter less."""
        if self._lost < BETTER * before._lost:
            return True
        was_busy = before.others < OTHERS and before.processors > MOST_PROCESSOR
        has_less_to_do = was_busy and LESS_TO_DO * before.processors > self.processors
        return has_less_to_do or before.is_stalling(timeout)

    @property
    def _lost(self) -> float:
        """What comes to the time that the wires take, as a share of that."""
        return 1 / min(self.flow, self.alltoall) - 1

    def beside(self, slower: NullTests) -> NullTests:
        """The same, knowing that tests where time passed ``slower`` were no better."""
        is_calm = not self.is_disturbed and not slower.is_disturbed
        alone = replace(self, is_inherent=True)
        return alone if is_calm and self.processors <= MOST_PROCESSOR else self

    def __str__(self) -> str:
        """One line."""
        others = f", {self.others:.0%} before it" if self.others >= OTHERS else ""
        stolen = f"; steal {self.steal:.0%}" if self.steal >= 0.01 else ""
        stall = f"; it stalls for {self.stall * 1e3:.0f} ms at a time" if self.stall else ""
        return (
            f"one flow {self.flow:.0%} of what the link allows, all links at once "
            f"{self.shift:.0%}, an all-to-all {self.alltoall:.0%}; in it the processors are "
            f"{self.processors:.0%} busy{others}{stolen}{stall}"
        )


def null_tests(cluster: Cluster, job: Job, label: str) -> NullTests:
    """Test an emulated cluster of several hosts; ``label`` names an all-to-all without
    contention."""
    with Watch() as idle:
        time.sleep(IDLE_SECONDS)
    hosts = cluster.host_of_rank()
    # the farthest pair of ranks there is on different hosts
    to = next(rank for rank in reversed(range(cluster.ranks)) if hosts[rank] != hosts[0])
    rate = min(link.mbit or 0.0 for link in cluster.topology.links) * 1e6 / 8
    size = int(FLOW_SECONDS * rate)
    watches = [idle]

    def share(request: str, enough: float) -> float:
        """The best of several tries. TCP's windows grow only while they are used."""
        best = 0.0
        for _ in range(TRIES):
            with Watch() as watch:
                answer = job.ask(request)
            watches.append(watch)
            seconds = max(answer["seconds"][0] - watch.stalled, 1e-6)
            best = max(best, min(1.0, size / rate / seconds / PAYLOAD_SHARE))
            if best >= enough:
                break
        return best

    flow = share(f"flow 0 {to} {size}", LEAST_FLOW)
    shift = share(f"shift {size}", LEAST_SHIFT)
    alltoall, watch = _alltoall(cluster, job, label)
    watches.append(watch)
    return NullTests(
        flow,
        shift,
        alltoall,
        watch.busy,
        idle.busy,
        sum(w.steal * w.elapsed for w in watches) / sum(w.elapsed for w in watches),
        statistics.median_low(w.stall for w in watches),
        len(os.sched_getaffinity(0)),
    )


def _alltoall(cluster: Cluster, job: Job, label: str) -> tuple[float, Watch]:
    """The share of its bound that an all-to-all in phases reaches; and what was seen meanwhile."""
    block = ALLTOALL_BYTES
    while block > LEAST_BYTES and LEAST_CALLS * _limit(cluster, block) > ALLTOALL_SECONDS:
        block //= 2
    limit = _limit(cluster, block)
    calls = max(LEAST_CALLS, min(MOST_CALLS, round(ALLTOALL_SECONDS / limit)))
    with Watch() as watch:
        patience = USUAL.of_visit(block, calls * limit)
        answer = job.ask(f"time {label} {block} 1 {calls} barrier", patience)
    if "error" in answer:
        raise EnvironmentFailure(f"{label} at {block} bytes: {answer['error']}")
    seconds = statistics.median(answer["seconds"])
    running = 1 - watch.stalled / watch.elapsed
    return min(1.0, limit / max(seconds * running, 1e-9)), watch


def _limit(cluster: Cluster, block: int) -> float:
    return cluster.limit(Workload(cluster.ranks, block)) or 1.0


def fit(
    cluster: Cluster,
    first: int,
    started: Callable[[Cluster], AbstractContextManager[Job]],
    alltoall: str,
    say: Callable[[str], None],
    deadline: float | None = None,
) -> tuple[Cluster, NullTests]:
    """The cluster, dilated by the least divisor from ``first`` on with which this machine carries
    it, and what the tests saw there; where none is enough, by the one beyond which none helps.
    ``alltoall`` is the label of one without contention; ``deadline`` is monotonic time."""
    best: tuple[Cluster, NullTests] | None = None
    for dilated in _dilations(cluster, first):
        with started(dilated) as job:
            tests = null_tests(dilated, job, alltoall)
        say(f"null tests: {tests}")
        troubles = tests.troubles(dilated.timeout)
        if best and troubles and not tests.is_better(best[1], best[0].timeout):
            best = best[0], best[1].beside(tests)
            break
        best = dilated, tests
        if not troubles or (deadline is not None and time.monotonic() > deadline):
            break
    assert best
    return best


def _dilations(cluster: Cluster, first: int) -> Iterator[Cluster]:
    yield from (cluster.dilated(divisor) for divisor in DIVISORS if divisor >= first)


def dilation_text(cluster: Cluster) -> str:
    """How much slower time passes, for people; nothing where it does not."""
    rates = sorted({link.mbit for link in cluster.topology.links if link.mbit})
    if cluster.dilation == 1 or not rates:
        return ""
    now = "/".join(f"{rate:g}" for rate in rates)
    stands = "/".join(f"{rate * cluster.dilation:g}" for rate in rates)
    share = {2: "half", 4: "a quarter", 8: "an eighth", 16: "a sixteenth"}[cluster.dilation]
    return f"{share} of its speed: {now} Mbit/s stand for {stands}"
