"""Visits to variants: a job that is started again when it is lost, and what precedes a timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from search.catalogue.algorithm import Variant
from search.cluster.job import Job
from search.cluster.watch import Watch
from search.measure.scheme import isolated, looped
from search.results.samples import TIMEOUT, sample_of
from search.results.workload import Limit, Team, Workload
from search.strategy.request import Failure, Outcome
from search.timeouts import USUAL, Timeouts

WARMUP_CALLS = 3
WARMUP_SECONDS = 0.1
"""Where a call takes longer, verifying it has warmed it up."""
SETTLE_TIMEOUTS = 1.25
"""Time-outs of idleness after a call with one."""
SKEW_BARRIERS = 20
LOOK_MILLISECONDS = 5


Pace = Callable[[int], float]
"""Makes the cluster ready for calls with so many bytes to each peer; TCP's shortest retransmission
time-out there, in seconds."""


def usual_pace(block: int) -> float:
    """Where time is not dilated."""
    return TIMEOUT


class OutOfTime(Exception):
    """The time limit is reached: decide on what is known."""


class Visits:
    """A job that visits variants on the first so many of its ranks."""

    def __init__(
        self,
        native: str,
        job: Job,
        start_job: Callable[[], Job],
        limit: Limit,
        deadline: float | None,
        timing: str,
        schemes: dict[Workload, tuple[str, int]],
        launch: int,
        pace: Pace = usual_pace,
        watch: Watch | None = None,
        timeouts: Timeouts = USUAL,
    ) -> None:
        """``native`` is the label of the library's own; ``job`` runs already, ``start_job`` starts
        another; ``limit`` gives the bandwidth bound
        of ranks and block in seconds; ``deadline`` is monotonic time; ``schemes`` says how cells
        were timed so far, and in how many calls a visit; ``launch`` is the number of the job;
        ``pace`` is told of the block before it is timed; ``watch`` sees when this machine
        stalls."""
        self._native = native
        self._job: Job | None = job
        self._start_job, self._limit, self._deadline = start_job, limit, deadline
        self._timing, self.schemes, self.launch = timing, schemes, launch
        self._pace, self._watch, self._timeouts = pace, watch, timeouts
        self._team: Team | None = None
        self._skew = 0.0
        self._prepared: set[tuple[str, Workload]] = set()

    def close(self) -> None:
        """End the job, if one runs."""
        job = self._forget()
        if job:
            job.close()

    def lose(self) -> None:
        """End a job that does not answer; OutOfTime if that was for want of time."""
        job = self._forget()
        if job:
            job.kill()
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime

    def _forget(self) -> Job | None:
        job, self._job, self._team = self._job, None, None
        self._prepared.clear()
        return job

    def _ask(self, team: Team, request: str, patience: float) -> dict[str, Any]:
        """A request to ranks of a job, started if none runs."""
        if self._deadline is not None:
            patience = min(patience, max(0.5, self._deadline - time.monotonic() + 1.0))
        if self._job is None:
            self._job = self._start_job()
            self.launch += 1
        if self._team != team:
            self._job.choose_team(team)
            self._team = team
            self._skew = self._job.ask(f"clocks {SKEW_BARRIERS}")["skew"]
        return self._job.ask(request, patience)

    def look(self, team: Team) -> Mapping[str, Any]:
        """What the hosts see while all ranks are idle."""
        return self._ask(team, f"quiet {LOOK_MILLISECONDS}", self._timeouts.visit)

    def visit(self, variant: Variant, workload: Workload) -> Outcome:
        """Time a variant, which is verified and warmed up the first time; JobLost if that fails."""
        begin = time.monotonic()
        timeout = self._pace(workload.block)
        patience = self._patience(workload)
        key = variant.label, workload
        if key not in self._prepared:
            verdict = self._ask(workload.team, f"verify {variant.label} {workload.block}", patience)
            if verdict.get("verdict") != "ok":
                return Failure(str(verdict.get("verdict") or verdict.get("error")))
            affordable = int(WARMUP_SECONDS / max(time.monotonic() - begin, 1e-6))
            warmups = min(WARMUP_CALLS, affordable)
            self._prepared.add(key)
            scheme, calls = self._scheme(workload, patience)
        else:
            scheme, calls = self.schemes[workload]
            warmups = int(calls > 1)
        request, timed = (
            f"time {variant.label} {workload.block} {warmups} {calls} {scheme}",
            time.monotonic(),
        )
        answer = self._ask(workload.team, request, patience)
        stalled = round(self._watch.stalled_since(timed), 3) if self._watch else 0.0
        if "error" in answer:
            return Failure(str(answer["error"]))
        if answer["timeouts"]:
            time.sleep(SETTLE_TIMEOUTS * timeout)
        sample = sample_of(answer, time.monotonic() - begin, self.launch, timeout)
        return replace(sample, stalled=stalled)

    def control(self, workload: Workload) -> None:
        """Let the library's own run; JobLost if it does not."""
        self._pace(workload.block)
        patience = self._patience(workload)
        self._ask(workload.team, f"verify {self._native} {workload.block}", patience)

    def _patience(self, workload: Workload) -> float:
        """Seconds after which a request has failed."""
        return self._timeouts.of_visit(workload.block, self._limit(workload))

    def _scheme(self, workload: Workload, patience: float) -> tuple[str, int]:
        """How calls of a cell are timed, and in how many a visit: the same for all variants."""
        if workload not in self.schemes:
            if self._timing == "loop":
                self.schemes[workload] = looped(workload.block)
            else:
                answer = self._ask(
                    workload.team, f"time {self._native} {workload.block} 1 1 barrier", patience
                )
                self.schemes[workload] = isolated(min(answer["seconds"]), self._skew)
        return self.schemes[workload]
