"""Who answers a strategy: recorded rounds first, then the measuring job."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from search.catalogue.algorithm import Variant
from search.catalogue.collective import Collective
from search.cluster.job import Job, JobLost
from search.cluster.watch import Watch
from search.errors import EnvironmentFailure, TooNoisy, summarised
from search.measure.gates import Gates
from search.measure.visits import OutOfTime, Pace, Visits, usual_pace
from search.results.journal import Journal
from search.results.record import Disturbance, Record
from search.results.recorded import Recorded
from search.results.samples import Sample
from search.results.workload import Limit, Workload
from search.strategy.request import Answer, Failure, Outcome, Restart, Round, Search
from search.timeouts import USUAL, Timeouts

TRIES = 3
"""Visits in a row that are lost before a variant is to blame for it: other things happen twice."""
MOST_TROUBLES = 3
"""Times in a row that a round is disturbed before the cluster is refused."""

Outcomes = Mapping[Variant, Outcome]
Blame = Callable[[Iterable[JobLost]], None]
"""Who is told of lost jobs that no variant is to blame for; may end it all."""


def blame_nobody(losses: Iterable[JobLost]) -> None:
    """Where hosts do not matter."""


class Watcher(Protocol):
    """Who is told how a search goes on."""

    def round(self, workload: Workload, variants: int, fresh: bool) -> None:
        """A round begins; ``fresh`` if it must be measured."""

    def say(self, text: str) -> None:
        """One line that the user should see."""


class MeasuringRunner:
    """Times rounds with an MPI job, which is started again when it is lost."""

    def __init__(
        self,
        collective: Collective,
        job: Job,
        start_job: Callable[[], Job],
        journal: Journal,
        watcher: Watcher,
        limit: Limit,
        gates: Gates,
        deadline: float | None = None,
        timing: str = "isolated",
        accept_noise: bool = False,
        seed: int = 1,
        blame: Blame = blame_nobody,
        pace: Pace = usual_pace,
        watch: Watch | None = None,
        timeouts: Timeouts = USUAL,
    ) -> None:
        """Of one collective. ``job`` runs already, ``start_job`` starts another when it is lost;
        ``limit`` gives the bandwidth bound of ranks and block in seconds; ``deadline`` is monotonic
        time; ``blame`` is told of jobs that were lost by what is no variant's fault; ``pace`` makes
        the cluster ready for a block; ``watch`` sees when this machine stalls, where all hosts are
        on it."""
        self._collective, self._blame, self._idle_loss = collective, blame, False
        self._journal, self._watcher, self._gates = journal, watcher, gates
        self._limit, self._deadline, self._accept_noise = limit, deadline, accept_noise
        self._random, self._timeouts = random.Random(seed), timeouts
        self._recorded = Recorded(journal.records)
        samples = (record.sample for record in journal.records if record.sample)
        launch = 1 + max((sample.launch for sample in samples), default=-1)
        self._visits = Visits(
            collective.native,
            job,
            start_job,
            limit,
            deadline,
            timing,
            self._recorded.schemes,
            launch,
            pace,
            watch,
            timeouts,
        )
        self._times: dict[tuple[str, Workload], list[float]] = {}
        self._workload: Workload | None = None
        self._looked = 0.0
        self._since_look: set[tuple[Workload, int]] = set()
        self._troubles = 0
        self.fresh_visits = 0
        self.noise: list[str] = []
        """troubles that the user accepted"""

    def run(self, search: Search) -> None:
        """Answer a strategy until it ends; OutOfTime when the deadline has come."""
        try:
            wanted = next(search)
            while True:
                if isinstance(wanted, Round):
                    answer = self._round(wanted)
                elif isinstance(wanted, Restart):
                    answer = self._restart(wanted)
                else:
                    self._visits.close()
                    answer = Answer()
                wanted = search.send(answer)
        except StopIteration:
            return

    def close(self) -> None:
        """End the job, if one runs."""
        self._visits.close()

    # ---- rounds

    def _round(self, wanted: Round) -> Answer:
        workload = wanted.workload
        labels = [variant.label for variant in wanted.variants]
        known = self._recorded.take(workload, labels, wanted.confirms)
        self._watcher.round(workload, len(wanted.variants), known is None)
        if known:
            return self._known(wanted, *known)
        void: frozenset[int] = frozenset()
        while True:
            number = self._recorded.next_number(workload)
            if workload != self._workload or not self._looked:
                self._await_quiet(workload)
            outcomes, seen = self._measure(wanted, number)
            suspects, troubles = self._disturbed(workload, number, outcomes, seen)
            if not troubles:
                return Answer(number, outcomes, void)
            void |= suspects
            self._void(workload, suspects, troubles)

    def _known(self, wanted: Round, number: int, samples: Mapping[str, Sample]) -> Answer:
        """A round that the journal holds."""
        for label, sample in samples.items():
            self._remember(label, wanted.workload, sample)
        failures = self._recorded.failures
        outcomes: Outcomes = {
            v: samples[v.label] if v.label in samples else Failure(failures[v.label])
            for v in wanted.variants
        }
        return Answer(number, outcomes)

    def _measure(self, wanted: Round, number: int) -> tuple[Outcomes, list[str]]:
        """All variants once in random order, and what a look saw that ended the round."""
        workload = wanted.workload
        order = list(wanted.variants)
        self._random.shuffle(order)
        outcomes: dict[Variant, Outcome] = {}
        seen: list[str] = []
        for variant in order:
            outcomes[variant] = self._visit(variant, workload, number, wanted.confirms)
            self._since_look.add((workload, number))
            if time.monotonic() - self._looked > self._timeouts.look:
                seen = self._look(workload)
            if seen:
                break
        return {
            variant: outcomes[variant] for variant in wanted.variants if variant in outcomes
        }, seen

    def _remember(self, label: str, workload: Workload, sample: Sample) -> None:
        self._times.setdefault((label, workload), []).append(sample.seconds)

    def _restart(self, wanted: Restart) -> Answer:
        workload = wanted.workload
        mine = [record for record in self._journal.records if record.workload == workload]
        seen = self._recorded.seen(workload)
        numbers = tuple(sorted({r.round for r in mine if r.sample and r.round < seen}))
        known = any(record.restart and record.rounds == numbers for record in mine)
        if not known:  # else the journal holds this search up to here, and further
            self._note_void(workload, numbers, wanted.reason, restart=True)
        return Answer(void=frozenset(numbers))

    # ---- noise

    def _disturbed(
        self, workload: Workload, number: int, outcomes: Outcomes, seen: list[str]
    ) -> tuple[frozenset[int], list[str]]:
        """Which rounds were disturbed, and by what: this one by an outage, all since the last good
        look by others at work."""
        stalls = self._stalls(workload, outcomes)
        suspects = {number} if stalls else set()
        if stalls and not seen:
            seen = self._look(workload)
        if seen:
            suspects |= {suspect for where, suspect in self._since_look if where == workload}
        return frozenset(suspects), [*stalls, *seen]

    def _stalls(self, workload: Workload, outcomes: Outcomes) -> list[str]:
        """Outages among the visits of a round."""
        found = []
        samples = {v: s for v, s in outcomes.items() if isinstance(s, Sample)}
        peers = [sample.seconds for sample in samples.values()]
        for variant, sample in samples.items():
            usual = statistics.median(self._times.get((variant.label, workload), peers))
            stall = self._gates.stall(workload, variant.label, sample, usual)
            if stall and not self._stands_still(variant, workload, usual):
                found.append(stall)
            self._remember(variant.label, workload, sample)
        return found

    def _stands_still(self, variant: Variant, workload: Workload, usual: float) -> bool:
        """Whether a variant that stalled does so when it is visited again: no outage then."""
        self._check_time(variant, workload)
        try:
            sample = self._visits.visit(variant, workload)
        except JobLost as loss:
            self._lose(variant.label, workload, loss)
            self._blame([loss])
            return False
        return isinstance(sample, Sample) and bool(
            self._gates.stall(workload, variant.label, sample, usual)
        )

    def _look(self, workload: Workload) -> list[str]:
        """What disturbs the cluster now; what was measured before is good if nothing does."""
        try:
            answer = self._visits.look(workload.team)
            self._idle_loss = False
        except JobLost as loss:
            self._lose("idle", workload, loss)
            self._blame([loss])
            if self._idle_loss:
                raise EnvironmentFailure(f"the idle job is lost again: {loss}") from loss
            self._idle_loss = True
            return [f"the job was lost: {loss}"]
        self._looked = time.monotonic()
        self._note_disturbance(self._gates.disturbance(answer, workload.team))
        troubles = [] if self.noise else self._gates.look(answer, workload.team)
        if not troubles:
            self._workload, self._troubles = workload, 0
            self._since_look.clear()
        return troubles

    def _note_disturbance(self, seen: Disturbance) -> None:
        """Put in the journal what disturbed the rounds since the last look."""
        for workload in {where for where, _ in self._since_look}:
            rounds = tuple(sorted(n for where, n in self._since_look if where == workload))
            self._journal.append(Record(workload, rounds=rounds, disturbance=seen))

    def _void(self, workload: Workload, suspects: frozenset[int], troubles: list[str]) -> None:
        """Note that rounds are void, and wait for better times."""
        self._since_look.clear()
        self._note_void(workload, tuple(sorted(suspects)), summarised(troubles))
        self._troubles += 1
        if self._troubles >= MOST_TROUBLES:
            self._refuse(troubles)
        self._await_quiet(workload)

    def _note_void(
        self, workload: Workload, numbers: tuple[int, ...], reason: str, restart: bool = False
    ) -> None:
        rounds = f"{len(numbers)} round{'s' * (len(numbers) != 1)}"
        self._watcher.say(f"{rounds} at {workload.block} B void and repeated: {reason}")
        self._journal.append(Record(workload, void=reason, rounds=numbers, restart=restart))

    def _await_quiet(self, workload: Workload) -> None:
        """Wait until nobody else is at work; TooNoisy if that takes too long."""
        end = time.monotonic() + self._timeouts.quiet
        troubles = self._look(workload)
        while troubles:
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise OutOfTime
            if time.monotonic() > end:
                self._refuse(troubles)
            else:
                time.sleep(self._timeouts.pause)
            troubles = self._look(workload)

    def _refuse(self, troubles: list[str]) -> None:
        """Too noisy to decide on, unless the user accepts it."""
        reason = summarised(troubles)
        if not self._accept_noise:
            raise TooNoisy(f"{reason}: measure when the cluster is idle, or --accept-noise")
        self._watcher.say(f"noise is accepted from here on: {reason}")
        self.noise.append(troubles[0])

    # ---- one visit

    def _visit(self, variant: Variant, workload: Workload, number: int, confirms: bool) -> Outcome:
        """Visit a variant and put what comes of it in the journal."""
        self._check_time(variant, workload)
        outcome = self._try(variant, workload)
        if isinstance(outcome, Failure):
            self._set_aside(variant, workload, outcome.reason)
        else:
            self.fresh_visits += 1
            scheme, _ = self._recorded.schemes[workload]
            self._journal.append(
                Record(workload, variant.label, number, outcome, scheme=scheme, confirms=confirms)
            )
        return outcome

    def _try(self, variant: Variant, workload: Workload) -> Outcome:
        """Visit a variant, again if the job is lost. Lost each time while the library's own runs
        between, the variant is to blame; else a host is, if one was named."""
        losses: list[JobLost] = []
        while True:
            try:
                outcome = self._visits.visit(variant, workload)
                self._blame(losses)
                return outcome
            except JobLost as loss:
                self._lose(variant.label, workload, loss)
                losses.append(loss)
            if len(losses) == TRIES:
                return Failure(losses[-1].why)
            if len(losses) == TRIES - 1:
                self._control(workload, losses)

    def _control(self, workload: Workload, losses: list[JobLost]) -> None:
        """See that the library's own runs where something else was lost; it is the hosts', if
        not."""
        try:
            self._visits.control(workload)
        except JobLost as loss:
            self._lose(self._collective.native, workload, loss)
            self._blame([*losses, loss])
            raise EnvironmentFailure(
                f"the MPI library's own {self._collective.function} fails here: {loss}; once that "
                "is mended run configure again, which goes on where it stopped"
            ) from loss

    def _lose(self, doing: str, workload: Workload, loss: JobLost) -> None:
        """Say what the job was doing when it was lost, and end it."""
        self._watcher.say(f"{doing} at {workload.block} B: {loss}; the job is restarted")
        self._visits.lose()

    def _check_time(self, variant: Variant, workload: Workload) -> None:
        """OutOfTime if a visit would end behind the deadline, as far as can be told."""
        if self._deadline is None:
            return
        times = self._times.get((variant.label, workload))
        expected = times[-1] if times else 2 * (self._limit(workload) or 0.0)
        if time.monotonic() + expected > self._deadline:
            raise OutOfTime

    def _set_aside(self, variant: Variant, workload: Workload, reason: str) -> None:
        if variant.body.algorithm.is_native:  # not recorded: once that is mended it is tried again
            raise EnvironmentFailure(
                f"the MPI library's own {self._collective.function} fails here: {reason}"
            )
        self._recorded.failures[variant.label] = reason
        self._journal.append(Record(workload, variant.label, failure=reason))
        self._watcher.say(f"{variant.label} is excluded: {reason}")
