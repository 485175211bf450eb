"""Who answers a strategy: recorded samples first, then the measuring job."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from search.algorithm import Variant
from search.errors import EnvironmentFailure
from search.measure.job import Job, JobLost
from search.measure.journal import Journal, Record
from search.measure.samples import Sample
from search.measure.strategy import Failure, Outcome, Round, Search

WARMUP_CALLS = 3
WARMUP_SECONDS = 0.6
SETTLE_SECONDS = 0.25
"""Idle time after a call with a retransmission time-out."""
TRIES = 2
PATIENCE = 20.0
"""Seconds beyond a hundred times the physical limit after which a request has failed."""


class OutOfTime(Exception):
    """The time limit is reached: decide on what is known."""


class Watcher(Protocol):
    """Who is told how a search goes on."""

    def round(self, block: int, variants: int, fresh: bool) -> None:
        """A round begins; ``fresh`` if anything of it must be measured."""

    def say(self, text: str) -> None:
        """One line that the user should see."""


class Recorded:
    """Samples of a journal, handed out in the order in which they were made."""

    def __init__(self, journal: Journal) -> None:
        self._samples: dict[tuple[str, int], deque[Sample]] = {}
        self._failures: dict[str, str] = {}
        for record in journal.records:
            if record.sample:
                key = record.label, record.block
                self._samples.setdefault(key, deque()).append(record.sample)
            else:
                self._failures[record.label] = record.failure or "failed"

    def take(self, variant: Variant, block: int) -> Outcome | None:
        """The next outcome that is known already, if any."""
        waiting = self._samples.get((variant.label, block))
        if waiting:
            return waiting.popleft()
        reason = self._failures.get(variant.label)
        return Failure(reason) if reason else None

    def fail(self, variant: Variant, reason: str) -> None:
        """From now on the variant has failed, at every block."""
        self._failures[variant.label] = reason


class MeasuringRunner:
    """Times rounds with an MPI job, which is started again when it is lost."""

    def __init__(
        self,
        job: Job,
        start_job: Callable[[], Job],
        journal: Journal,
        watcher: Watcher,
        limit: Callable[[int], float | None],
        deadline: float | None = None,
        seed: int = 1,
    ) -> None:
        """``job`` runs already, ``start_job`` starts another when it is lost; ``limit`` gives a
        block's physical limit in seconds; ``deadline`` is monotonic time."""
        self._start_job, self._journal, self._watcher = start_job, journal, watcher
        self._limit, self._deadline = limit, deadline
        self._random = random.Random(seed)
        self._recorded = Recorded(journal)
        self._job: Job | None = job
        self._prepared: set[tuple[str, int]] = set()
        self.fresh_samples = 0

    def run(self, search: Search) -> None:
        """Answer a strategy until it ends; OutOfTime when the deadline has come."""
        try:
            wanted = next(search)
            while True:
                wanted = search.send(self._answer(wanted))
        except StopIteration:
            return

    def close(self) -> None:
        """End the job, if one runs."""
        job, self._job = self._job, None
        if job:
            job.close()

    def _answer(self, wanted: Round) -> Mapping[Variant, Outcome]:
        known = {v: self._recorded.take(v, wanted.block) for v in wanted.variants}
        missing = [v for v, outcome in known.items() if outcome is None]
        self._watcher.round(wanted.block, len(wanted.variants), bool(missing))
        self._random.shuffle(missing)
        for variant in missing:
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise OutOfTime
            known[variant] = self._measure(variant, wanted.block)
        return {variant: outcome for variant, outcome in known.items() if outcome}

    def _measure(self, variant: Variant, block: int) -> Outcome:
        reason = ""
        for _ in range(TRIES):
            try:
                outcome = self._measure_once(variant, block)
                break
            except JobLost as error:
                reason = str(error)
                if self._job:
                    self._job.kill()
                self._job = None
                self._prepared.clear()
                self._watcher.say(f"{variant.label} at {block} B: {reason}; the job is restarted")
        else:
            outcome = Failure(reason)
        if isinstance(outcome, Failure):
            self._recorded.fail(variant, outcome.reason)
            self._journal.append(Record(variant.label, block, None, outcome.reason))
            self._watcher.say(f"{variant.label} is set aside: {outcome.reason}")
            if variant.label == "native":
                raise EnvironmentFailure(
                    f"the MPI library's own MPI_Alltoall fails here: {outcome.reason}"
                )
        else:
            self.fresh_samples += 1
            self._journal.append(Record(variant.label, block, outcome))
        return outcome

    def _measure_once(self, variant: Variant, block: int) -> Outcome:
        if self._job is None:
            self._job = self._start_job()
        patience = PATIENCE + 100.0 * (self._limit(block) or block * 1e-6)
        if (variant.label, block) not in self._prepared:
            begin = time.monotonic()
            verdict = self._job.ask(f"verify {variant.label} {block}", patience)
            if verdict.get("verdict") != "ok":
                return Failure(str(verdict.get("verdict") or verdict.get("error")))
            affordable = int(WARMUP_SECONDS / max(time.monotonic() - begin, 1e-6))
            warmups = min(WARMUP_CALLS, affordable)
            if warmups:
                self._job.ask(f"time {variant.label} {block} 0 {warmups}", patience)
            self._prepared.add((variant.label, block))
        answer = self._job.ask(f"time {variant.label} {block} 0 1", patience)
        if "error" in answer:
            return Failure(str(answer["error"]))
        sample = Sample(answer["seconds"][0], answer["retransmissions"], answer["timeouts"])
        if sample.timeouts:
            time.sleep(SETTLE_SECONDS)
        return sample
