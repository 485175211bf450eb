"""The tune stage: search with a strategy, every sample in the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from search.catalogue.algorithm import Variant
from search.catalogue.collective import Collective
from search.cli.desk import Desk
from search.cli.progress import Display
from search.cli.settings import Settings
from search.cli.workplace import Workplace, build_simulator, sizes_of
from search.cluster.backends import backend_of
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.site import Site
from search.cluster.watch import Watch
from search.decide.rows import WINNERS_TO_CONFIRM
from search.errors import EnvironmentFailure, HostsFailed
from search.files import read_object, write_whole
from search.measure.gates import Gates
from search.measure.probe import read_machine
from search.measure.runner import MeasuringRunner
from search.measure.visits import OutOfTime
from search.model.expectation import Expectations, keep, start_model
from search.results.fingerprint import digest
from search.results.journal import Journal
from search.results.workload import Team, Workload
from search.sizes import size_text
from search.strategy import STRATEGIES
from search.strategy.confirming import confirming
from search.strategy.elimination import undecided
from search.strategy.request import EFFORTS, Cells, Search, Task, expects_nothing


@dataclass(frozen=True)
class Tuned:
    """How a tuning ended: whether the search came to its end, and timed anything; what is
    uncertain, and which noise the user accepted."""

    finished: bool
    anything: bool
    uncertain: tuple[str, ...]
    noise: tuple[str, ...]


def tune(desk: Desk, site: Site, job: Job) -> Tuned:
    """Search, with a job that runs already."""
    console, place, (_, settings) = desk.console, desk.place, desk.configured()
    fields = site.fingerprint(job.library, settings.timing)
    journal = Journal(place.journal, digest(fields))
    compare_fingerprint(console, place, fields, journal)
    if journal.torn:
        console.print("tune: the journal's last line was cut off and is measured again")
    program, collective = place.build / "measure", desk.catalogue.collective
    cells: Cells = {}
    with models_of(collective, console, site, place, settings.teams, journal) as models:
        job, tasks = site.with_job(
            job,
            program,
            lambda text: console.print(f"tune: {text}"),
            lambda job: [make_task(desk, job, team, models.get(team)) for team in settings.teams],
        )
        console.print(
            f"tune: {len(tasks[-1].variants)} variants at {len(tasks[-1].sizes)} sizes"
            + (f" on {', '.join(t.team.text for t in tasks)}" if len(tasks) > 1 else "")
            + (f", {len(journal.records)} records are there already" if journal.records else "")
        )
        started, too_early = time.monotonic(), ""
        wanted = [task.workload(block) for task in tasks for block in task.sizes]
        with Display(console, wanted) as display, Watch() as watch:
            deadline = desk.begin + settings.time_limit if settings.time_limit else None
            runner = make_runner(
                collective, site, place, job, journal, display, settings, watch, deadline
            )
            try:
                for task in tasks:
                    runner.run(STRATEGIES[settings.strategy](cells, task))
                is_to_confirm = tasks[0].rules.confirms
                if is_to_confirm:
                    display.say("confirming what was found, in another launch")
                for task in tasks if is_to_confirm else ():
                    for winners in WINNERS_TO_CONFIRM:
                        mine = task.measured(cells)
                        runner.run(confirming(cells, task, winners(mine, task.variants[0])))
            except OutOfTime:
                too_early = "; the time limit came first"
            except HostsFailed:
                raise
            except EnvironmentFailure as failure:
                has_times = any(cell.rounds for cell in cells.values())
                if not (site.backend.accepts_noise and has_times):
                    raise
                too_early = f"; then {failure}: what is known is decided"
            finally:
                runner.close()
    console.print(
        f"tune: {runner.fresh_visits} visits to variants in {time.monotonic() - started:.0f} s"
        + too_early,
        markup=False,
    )
    anything = any(
        record.label == collective.native and record.sample for record in journal.records
    )
    return Tuned(
        not too_early, anything, uncertain(cells, tasks), tuple(dict.fromkeys(runner.noise))
    )


def make_runner(
    collective: Collective,
    site: Site,
    place: Workplace,
    job: Job,
    journal: Journal,
    display: Display,
    settings: Settings,
    watch: Watch,
    deadline: float | None = None,
) -> MeasuringRunner:
    """Who measures on a cluster as it was configured; ``deadline`` is monotonic time."""
    return MeasuringRunner(
        collective,
        job,
        lambda: site.start_job(place.build / "measure"),
        journal,
        display,
        partial(site.cluster.limit, across=collective.across),
        make_gates(site.cluster),
        deadline,
        settings.timing,
        settings.accept_noise or site.backend.accepts_noise,
        blame=site.health.blame,
        pace=site.pace,
        watch=watch if site.backend.on_this_machine else None,
        timeouts=site.timeouts,
    )


def measure_rounds(
    desk: Desk,
    site: Site,
    job: Job,
    journal: Journal,
    search: Search,
    workloads: Collection[Workload],
) -> None:
    """Let a search of these workloads measure what the journal does not hold."""
    console, place, (_, settings) = desk.console, desk.place, desk.configured()
    with Display(console, workloads) as display, Watch() as watch:
        runner = make_runner(
            desk.catalogue.collective, site, place, job, journal, display, settings, watch
        )
        try:
            runner.run(search)
        finally:
            runner.close()


@contextmanager
def models_of(
    collective: Collective,
    console: Console,
    site: Site,
    place: Workplace,
    wanted: Sequence[Team],
    journal: Journal,
) -> Iterator[Mapping[Team, Expectations]]:
    """The schedule model for each team, for as long as the search asks it; what it said
    is kept. Of a grid, or one rank, there is none, and where it cannot be had the search goes on
    without it."""
    machine = read_machine(place.machine)
    found: dict[Team, Expectations] = {}
    if not site.cluster.grid and machine and machine.network:
        network = start_model(place.model, journal.fingerprint, machine.network, journal.records)
        try:
            start = build_simulator(place, site.cluster, site.tools, network)
            for team in wanted:
                if team.ranks > 1:
                    found[team] = Expectations(start(team), team, collective)
        except EnvironmentFailure as error:
            console.print(f"tune: there is no model: {error}")
    try:
        yield found
    finally:
        for model in found.values():
            model.close()
        if found:
            keep(place.model, found.values())


def make_task(
    desk: Desk, job: Job, team: Team, model: Expectations | None = None, everything: bool = False
) -> Task:
    """What is searched on a team: without rankings that change nothing there, and without
    what the settings leave out, unless ``everything`` is wanted."""
    cluster, settings = desk.configured()
    ranks = team.ranks
    job.choose_team(team)
    rankings = (None, *job.rankings)

    def differs(variant: Variant) -> bool:
        return variant.named("ranking") in rankings

    each = cluster.each(team)
    variants = desk.catalogue.variants(
        ranks,
        () if everything else settings.only,
        settings.effort == "quick" and not everything,
        each,
        everything or settings.strategy == "exhaustive",
    )
    return Task(
        ranks,
        desk.catalogue.collective.sizes or sizes_of(desk.place, settings, team),
        tuple(variant for variant in variants if differs(variant)),
        EFFORTS[settings.effort],
        lambda variant: [v for v in variant.near(ranks, each) if differs(v)],
        each,
        lambda variant, block: cluster.sending(variant.sent(ranks, block)),
        model.of if model else expects_nothing,
        collective=desk.catalogue.collective.name,
        placement=team.placement,
    )


def make_gates(cluster: Cluster) -> Gates:
    """The noise gates of a cluster."""
    return Gates(cluster.hosts_of, cluster.speeds(), backend_of(cluster.backend).watched)


def uncertain(cells: Cells, tasks: Sequence[Task]) -> tuple[str, ...]:
    """What a search that ended too early leaves open, a line for each cell."""
    lines = []
    for task in tasks:
        for block in task.sizes:
            cell = cells.get(task.workload(block))
            where = f"{size_text(block)} on {task.team.text}"
            if cell is None or not cell.rounds:
                continue
            finalists = cell.finalists
            others = undecided(cell, finalists)
            if others:
                names = ", ".join(v.label for v in [cell.best(finalists), *others][:4])
                lines.append(f"{where}: {names} are not statistically distinguishable")
        reached = [cell.block for cell in task.measured(cells)]
        if not reached or max(reached) < max(task.sizes):
            beyond = f"beyond {size_text(max(reached))}" if reached else "at any size"
            lines.append(f"nothing is measured {beyond} on {task.team.text}")
    return tuple(lines)


def compare_fingerprint(
    console: Console, place: Workplace, fields: Mapping[str, object], journal: Journal
) -> None:
    """Say what changed since the last tuning, and keep the fingerprint."""
    before = read_object(place.identity)
    after = json.loads(json.dumps(fields))
    changed = [key for key in {**after, **before} if after.get(key) != before.get(key)]
    if before and changed and journal.foreign and not journal.records:
        console.print(
            f"tune: changed since the last tuning: {', '.join(changed)}; all is measured anew"
        )
    write_whole(place.identity, json.dumps(fields, indent=1, sort_keys=True) + "\n")
