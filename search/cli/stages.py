"""The stages of the way from a cluster to generated/alltoall.c; each one command."""

from __future__ import annotations

import os
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from search.analysis import bench as benchmark
from search.analysis import broadcasts, timeline, verify
from search.analysis.compare import compare_strategies
from search.analysis.families import compare_families
from search.analysis.validation import agreement, final, leaders, predictions, show, whole
from search.catalogue.algorithm import Catalogue, Variant
from search.cli.summary import describe, list_catalogue, summary
from search.cli.tuning import Tuned, make_gates, measure_rounds, tune
from search.cli.verbs import INSTALLATION
from search.cli.workplace import (
    PRESETS,
    Workplace,
    build_job,
    build_simulator,
    read_identity,
    read_presets,
    sizes_of,
    start_job,
)
from search.cluster.backends import backend_of
from search.cluster.configured import make_cluster, read_cluster, shrink, write_cluster
from search.cluster.hosts import Cluster
from search.cluster.inventory import carriers, count_traffic
from search.cluster.job import Job, JobLost
from search.cluster.site import Site
from search.cluster.watch import processor_times
from search.decide.claim import spread_in
from search.decide.decision import (
    Decision,
    DecisionTable,
    Evidence,
    hashed_tree,
    read_decision,
    write_decision,
)
from search.decide.rows import decide, weigh
from search.emit import install as installation
from search.emit.emission import emit_c, emit_h
from search.errors import (
    EnvironmentFailure,
    HostsFailed,
    Interrupted,
    Outdated,
    TooNoisy,
    UserError,
)
from search.files import read_object, write_whole
from search.measure.gates import summarised
from search.measure.null_tests import DIVISORS, NullTests, dilation_text, fit
from search.measure.probe import Machine, probe, rates_now, read_machine, write_machine
from search.model.expectation import read_predictions
from search.model.magpie import completion
from search.results.cell import cells_of, linked
from search.results.fingerprint import digest
from search.results.journal import Journal, Record, any_journal, usual_disturbance
from search.sizes import size_text
from search.strategy.profile import read_profile
from search.strategy.racing import FIRST
from search.strategy.request import QUICK_SIZES, SIZES, Cells
from search.toolchain import TEMPLATES, Toolchain, read_toolchain

PLAIN_WIDTH = 160
"""Columns where there is no terminal."""
MODEL_LEAST = 60
"""Seconds of a time limit that leave some for the parameters of the model."""
TELLING_STEAL = 0.05
"""Share of the processors that somebody else had, from which on the output says so."""
PROBE_SHARE = 0.3
"""Of a time limit: what is not known then is not tried."""
RECORD_WARMUPS = 3
RECORD_PATIENCE = 120.0
BENCH_SECONDS = {"quick": 0.3, "normal": 0.8, "thorough": 4.0}
"""Of a block in a launch."""
BENCH_LAUNCHES = {"quick": 2, "normal": 3, "thorough": 5}


def run(options: Namespace, root: Path) -> None:
    """Run the stage that the options name."""
    begin = time.monotonic()
    console = Console(quiet=options.quiet, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    place = Workplace(root)
    catalogue = Catalogue(TEMPLATES / "alltoall")
    if options.stage == "list":
        list_catalogue(console, catalogue)
    elif options.stage == "generic":
        emit_generic(console, place, catalogue, options.preset)
    elif options.stage == "decide":
        decide_stage(place, catalogue)
    elif options.stage == "emit":
        emit_stage(console, place, catalogue)
    elif options.stage in INSTALLATION:
        installation_stage(console, place, catalogue, options)
    elif options.stage == "report":
        report_stage(console, place, catalogue)
    elif options.stage == "compare-strategies":
        for name, records in named_journals(options):
            compare_strategies(console, name, records, catalogue.variant)
    elif options.stage == "families":
        for _, records in named_journals(options):
            compare_families(console, records, catalogue)
    elif options.stage == "figures":
        figures_stage(console, options, root)
    elif options.stage == "configure":
        configure_cluster(console, options, place, catalogue)
        cluster, tuned = measure(console, place, catalogue, begin, options.allow_shrink)
        if not tuned.anything:
            end_too_early(console, place, catalogue)
        decision = decide_stage(place, catalogue, tuned)
        emit_stage(console, place, catalogue)
        summary(console, cluster, decision, tuned)
    else:
        cluster_stage(console, place, catalogue, options, begin)


def end_too_early(console: Console, place: Workplace, catalogue: Catalogue) -> None:
    """The time limit came before anything was timed: leave an untuned file if there is none."""
    was_there = (place.generated / "alltoall.c").exists()
    if not was_there:
        emit_generic(console, place, catalogue)
    raise Interrupted(
        "the time limit came before anything was timed: generated/alltoall.c is "
        f"{'as it was' if was_there else 'untuned'}; run configure again with more --time-limit="
    )


def measure(
    console: Console, place: Workplace, catalogue: Catalogue, begin: float, allow_shrink: bool
) -> tuple[Cluster, Tuned]:
    """Probe and tune; if the user allows it, without the hosts that fail."""
    tools = read_toolchain(place.root / "config.mk")

    def say(text: str) -> None:
        console.print(f"cluster: {text}", markup=False)

    while True:
        cluster, settings = read_cluster(place.cluster)
        try:
            program = build_job(tools, cluster, place, catalogue)
            cluster, tests = dilate(console, place, tools, program, begin)
            with Site(cluster, tools, place.build, say) as site:
                job = probe_stage(console, site, place, site.start_job(program), tests)
                return cluster, tune(console, site, place, catalogue, job, begin)
        except HostsFailed as failure:
            if not allow_shrink:
                raise
            cluster, settings = shrink(cluster, settings, failure)
            names = ", ".join(failure.hosts)
            console.print(f"set aside: {failure}", markup=False)
            console.print(f"cluster: without {names}, all is measured anew: {describe(cluster)}")
            write_cluster(place.cluster, cluster, settings)


def dilate(
    console: Console, place: Workplace, tools: Toolchain, program: Path, begin: float
) -> tuple[Cluster, NullTests | None]:
    """Slow an emulated cluster down as far as this machine needs it now, beginning with what the
    last tuning needed; keep it in build/cluster.json. With what the null tests saw; ``program`` is
    the measuring job."""
    cluster, settings = read_cluster(place.cluster)
    if not backend_of(cluster.backend).can_dilate or len(cluster.ranks_on()) < 2:
        return cluster, None
    known = read_object(place.identity).get("dilation") if place.journal.exists() else 1
    first = known if known in DIVISORS else 1

    @contextmanager
    def started(dilated: Cluster) -> Iterator[Job]:
        with Site(dilated, tools, place.build) as site:
            yield site.start_job(program)

    def say(text: str) -> None:
        console.print(f"probe: {text}", markup=False)

    limit = settings["time_limit"]
    deadline = begin + limit * PROBE_SHARE if limit else None
    cluster, tests = fit(cluster, first, started, say, deadline)
    if cluster.dilation > 1:
        say(f"this machine carries the cluster at {dilation_text(cluster)}")
    for trouble in tests.troubles(cluster.timeout):
        say(f"this machine disturbs the cluster: {trouble}; intervals will be wide")
    if tests.is_inherent:
        say(f"an all-to-all in phases has {tests.alltoall:.0%} of its bound with this MPI library")
    write_cluster(place.cluster, cluster, settings)
    return cluster, tests


def cluster_stage(
    console: Console, place: Workplace, catalogue: Catalogue, options: Namespace, begin: float
) -> None:
    """A stage that needs the cluster that was configured."""
    cluster, settings = read_cluster(place.cluster)
    with Site(cluster, read_toolchain(place.root / "config.mk"), place.build) as site:
        if options.stage == "bench":
            bench_stage(console, site, place, catalogue, options, settings)
        elif options.stage == "verify":
            verify_stage(console, site, place, catalogue, settings)
        elif options.stage == "timeline":
            timeline_stage(console, site, place, catalogue, options)
        elif options.stage == "broadcasts":
            broadcasts_stage(console, site, place, catalogue, options)
        elif options.stage == "model":
            model_stage(console, site, place, catalogue, settings)
        else:
            job = start_job(site, place, catalogue)
            if options.stage == "probe":
                probe_stage(console, site, place, job).close()
            else:
                tune(console, site, place, catalogue, job, begin)


def named_journals(options: Namespace) -> list[tuple[str, list[Record]]]:
    """The journals on the command line: their names and records."""
    if not options.journals:
        raise UserError(f"{options.stage} JOURNAL: a journal of an exhaustive search is expected")
    return [(name, any_journal(Path(name)).records) for name in options.journals]


def configure_cluster(
    console: Console, options: Namespace, place: Workplace, catalogue: Catalogue
) -> None:
    """Settle the cluster and the search's settings; write build/cluster.json."""
    cluster, introduction = make_cluster(options, os.environ)
    catalogue.variants(cluster.ranks, options.only)  # names must be known
    sides = sorted({side for side in cluster.grid if side > 1})
    profile = read_profile(Path(options.profile), cluster.ranks) if options.profile else {}
    if profile and sides:
        profile = {ranks: blocks for ranks, blocks in profile.items() if ranks in sides}
        if not profile:
            raise UserError(f"{options.profile}: no call on rows or columns of the grid is in it")
    effort = options.effort or "normal"
    settings = {
        "ranks": [*profile] or sides or options.np or [cluster.ranks],
        "profile": profile,
        "sizes": options.sizes or (QUICK_SIZES if effort == "quick" else SIZES),
        "own_sizes": bool(options.sizes),
        "strategy": options.strategy,
        "timing": options.timing,
        "effort": effort,
        "only": options.only,
        "time_limit": options.time_limit,
        "accept_noise": options.accept_noise,
    }
    keep_better(place, catalogue, cluster, options.fresh)
    console.print(f"cluster: {describe(cluster)}")
    if introduction:
        console.print(introduction, markup=False)
    if options.fresh:
        place.journal.unlink(missing_ok=True)
    write_cluster(place.cluster, cluster, settings)


def keep_better(place: Workplace, catalogue: Catalogue, cluster: Cluster, fresh: bool) -> None:
    """See that what was tuned for a cluster is not replaced because none is named now."""
    if backend_of(cluster.backend).is_named or fresh or not place.decision.exists():
        return
    hosts = read_decision(place.decision, catalogue).tuned.get("hosts", [])
    if len(hosts) > 1:
        raise UserError(
            f"generated/alltoall.c is tuned for {len(hosts)} hosts, and no cluster is named: name "
            "one (--hostfile, --emulate), or --fresh tunes for this machine alone"
        )


def probe_stage(
    console: Console, site: Site, place: Workplace, job: Job, tests: NullTests | None = None
) -> Job:
    """Measure the network itself; write build/machine.json, with what null ``tests`` saw before.
    The job, or another if it was lost. A short time limit leaves no time for the parameters of the
    model."""
    settings = read_cluster(place.cluster)[1]
    limit = settings["time_limit"]
    effort = None if limit and limit < MODEL_LEAST else settings["effort"]

    def say(text: str) -> None:
        console.print(f"probe: {text}")

    say("the network itself, for about half a minute")
    before = count_traffic(site.backend.query)
    job, machine = site.with_job(
        job, place.build / "measure", say, lambda job: probe(site.cluster, job, say, effort)
    )
    carried = carriers(before, count_traffic(site.backend.query))
    if carried:
        say(carried)
    write_machine(place.machine, replace(machine, null_tests=tests))
    return job


def read_cells(place: Workplace, catalogue: Catalogue) -> tuple[Journal, Cells]:
    """The journal of the last tuning, and its samples by ranks and block."""
    _, settings = read_cluster(place.cluster)
    journal = Journal(place.journal, digest(read_identity(place)))
    variants = {catalogue.variant(record.label) for record in journal.records if record.label}
    known = sorted(variants, key=lambda variant: variant.simplicity)
    cells = cells_of(journal.records, known)
    native = catalogue.variant("native")
    if not any(native in cell.rounds for cell in cells.values()):
        raise UserError(
            "nothing is measured yet: run ./configure or 'make tune', with enough --time-limit="
        )
    return journal, {key: cell for key, cell in cells.items() if key[0] in settings["ranks"]}


def decide_stage(place: Workplace, catalogue: Catalogue, tuned: Tuned | None = None) -> Decision:
    """Make generated/decision.toml of the journal."""
    cluster, settings = read_cluster(place.cluster)
    fields = read_identity(place)
    journal, cells = read_cells(place, catalogue)
    native = catalogue.variant("native")
    disturbance = usual_disturbance(journal.records)
    machine = read_machine(place.machine)
    tests = machine.null_tests if machine else None
    decision = Decision(
        decide(
            cells,
            lambda ranks: sizes_of(place, settings, ranks),
            native,
            cluster.limit,
            read_predictions(place.model),
            cluster.dilation > 1 or bool(tests and tests.is_disturbed),
        ),
        {
            "library": fields["library"],
            "ranks": cluster.ranks,
            **({"grid": [*cluster.grid]} if cluster.grid else {}),
            "hosts": sorted(set(fields["hosts"])),
            "fingerprint": digest(fields),
            **({"noise": tuned.noise[0]} if tuned and tuned.noise else {}),
            **({"dilation": dilation_text(cluster)} if cluster.dilation > 1 else {}),
            **({"steal": disturbance.steal} if disturbance.steal >= TELLING_STEAL else {}),
        },
        hashed_tree(cluster.topology),
    )
    decision.check(str(place.decision))
    write_decision(place.decision, decision)
    return decision


def emit_stage(console: Console, place: Workplace, catalogue: Catalogue) -> None:
    """Write generated/alltoall.c and .h from generated/decision.toml."""
    if not place.decision.exists():
        emit_generic(console, place, catalogue)
        return
    decision = read_decision(place.decision, catalogue)
    write_whole(place.generated / "alltoall.h", emit_h(TEMPLATES))
    write_whole(place.generated / "alltoall.c", emit_c(decision, catalogue, TEMPLATES))


def emit_generic(
    console: Console, place: Workplace, catalogue: Catalogue, preset: str = "mpich"
) -> None:
    """Write the untuned file, from a preset."""
    decision = read_decision(PRESETS[preset], catalogue)
    write_decision(place.decision, decision)
    emit_stage(console, place, catalogue)
    console.print(
        f"generated/alltoall.c is untuned (generic, as {preset}): "
        "./configure on the cluster tunes it"
    )


def timeline_stage(
    console: Console, site: Site, place: Workplace, catalogue: Catalogue, options: Namespace
) -> None:
    """Record one exchange and draw it: build/timeline.svg and .json."""
    block, label = options.block, options.variant
    if label is None:
        decision = read_decision(place.decision, catalogue)
        label = benchmark.chosen_label(decision, site.cluster.ranks, block)
    label = catalogue.variant(label).label
    if label == "native":
        raise UserError("the library's own messages cannot be recorded: name a VARIANT=")
    site.pace(block)
    job = start_job(site, place, catalogue, "record", "ATALL_RECORD")
    try:
        for _ in range(RECORD_WARMUPS):
            job.ask(f"time {label} {block} 0 1 barrier", RECORD_PATIENCE)
        answer = job.ask(f"record {label} {block}", RECORD_PATIENCE)
    except JobLost as error:
        raise EnvironmentFailure(f"{label} at {block} bytes: {error}") from error
    finally:
        job.close()
    if "error" in answer:
        raise EnvironmentFailure(f"{label} at {block} bytes: {answer['error']}")
    cluster = site.cluster
    messages = timeline.pair_up(answer["messages"])
    rows = timeline.rows_of(messages, cluster.topology, cluster.host_of_rank())
    if not rows:
        raise UserError("no message crosses a cable: there is nothing to draw")
    title = f"{label}, {size_text(block)} to each peer, {describe(cluster)}"
    timeline.write_messages(place.build / "timeline.json", label, block, messages)
    timeline.draw(place.build / "timeline.svg", title, rows)
    limit = cluster.limit(cluster.ranks, block)
    console.print(f"{title}: {timeline.describe(rows, messages)}")
    if limit:
        console.print(f"the physical limit is {limit * 1e3:.1f} ms")
    console.print("the picture is build/timeline.svg, the recording build/timeline.json")


def _same(label: str, block: int) -> str:
    """A label that serves all blocks."""
    return label


def bench_stage(
    console: Console,
    site: Site,
    place: Workplace,
    catalogue: Catalogue,
    options: Namespace,
    settings: dict[str, Any],
) -> None:
    """Compare the generated file with the library, of a grid on rows and on columns; write
    build/bench.json."""
    decision = read_decision(place.decision, catalogue)
    cluster = site.cluster
    presets = read_presets(catalogue) if options.competitors else {}
    rivals = [row.variant for preset in presets.values() for row in preset.rows]
    program = build_bench(site, place, catalogue, decision, rivals)
    jobs = [site.start_job(program)]
    fields = site.fingerprint(jobs[0].library, settings["timing"])
    forced = jobs[0].forced if options.competitors else []
    all_rows, before = [], processor_times()
    for ranks in settings["ranks"] if cluster.grid else [cluster.ranks]:
        competitors: dict[str, Callable[[int], str]] = {
            name: partial(_same, name) for name in forced
        }
        for name, preset in presets.items():
            competitors[f"preset {name}"] = partial(benchmark.chosen_label, preset, ranks)
        plan = make_plan(site, place, options, settings, ranks, competitors)
        timed = benchmark.run_bench(
            lambda: jobs.pop() if jobs else site.start_job(program),
            plan,
            cluster.limit,
            lambda text: console.print(f"bench {text}"),
        )
        chosen = partial(benchmark.chosen_label, decision, ranks)
        rows = benchmark.make_rows(timed, plan, cluster.limit, chosen)
        where = f"; communicators of {ranks} ranks, all at once" if cluster.grid else ""
        benchmark.show(console, rows, describe(cluster) + where + stolen(before))
        all_rows += rows
    circumstances = {
        "cluster": describe(cluster),
        **{
            key: fields[key] for key in ("library", "congestion control", "port buffer", "dilation")
        },
    }
    benchmark.write_rows(place.build / "bench.json", all_rows, circumstances)


def stolen(before: Sequence[int]) -> str:
    """What the hypervisor gave to others since then, if that is worth a word."""
    spent = [after - begin for begin, after in zip(before, processor_times())]
    steal = spent[7] / max(1, sum(spent))
    return f"; steal {steal:.0%}" if steal >= TELLING_STEAL else ""


def build_bench(
    site: Site,
    place: Workplace,
    catalogue: Catalogue,
    decision: Decision,
    rivals: Sequence[Variant],
) -> Path:
    """The measuring job around what ships, and around the bodies that only rivals name."""
    source = place.generated / "alltoall.c"
    if rivals:
        source = place.build / "bench.c"
        write_whole(source, emit_c(decision, catalogue, TEMPLATES, also=rivals))
        write_whole(place.build / "alltoall.h", emit_h(TEMPLATES))
    program = place.build / "bench"
    site.tools.compile_job(source, program)
    return program


def verify_stage(
    console: Console,
    site: Site,
    place: Workplace,
    catalogue: Catalogue,
    settings: dict[str, Any],
) -> None:
    """See whether the hosts are as they were tuned for and the rows that gain most are still right;
    Outdated says what is not, TooNoisy why nobody can tell."""
    decision = read_decision(place.decision, catalogue)
    table = decision.tables[0]
    evidence = verify.what_matters(table)
    if not evidence:
        raise UserError("generated/alltoall.c is not tuned: ./configure on the cluster does that")
    evidence |= evidence_of_speed(place, catalogue, table)
    rivals = {block: one.runner_up or "library" for block, one in evidence.items()}
    named = [catalogue.variant(label) for label in rivals.values() if label != "library"]
    program = build_bench(site, place, catalogue, decision, named)
    jobs = [site.start_job(program)]
    fields = site.fingerprint(jobs[0].library, settings["timing"])
    changed = verify.changes(read_identity(place), fields)
    for text in changed:
        console.print(f"verify: {text}", markup=False)
    machine = read_machine(place.machine)
    tests = machine.null_tests if machine else None
    noise = verify.noise(site.cluster, jobs[0], make_gates(site.cluster), tests)
    slow = other_rates_now(site.cluster, jobs[0], machine)

    def time_blocks(blocks: Sequence[int]) -> list[verify.Verdict]:
        plan = verify.plan(table.ranks, blocks, rivals, site.pace)
        timed = benchmark.run_bench(
            lambda: jobs.pop() if jobs else site.start_job(program),
            plan,
            site.cluster.limit,
            lambda text: console.print(f"verify {text}"),
        )
        chosen = partial(benchmark.chosen_label, decision, table.ranks)
        rows = benchmark.make_rows(timed, plan, site.cluster.limit, chosen)
        return [verify.judge(*both, evidence[both[1].block]) for both in zip(rows, timed)]

    verdicts = {one.block: one for one in time_blocks([*evidence])}
    doubtful = [block for block, one in verdicts.items() if one.why]
    if doubtful:
        verdicts |= {one.block: one for one in time_blocks(doubtful)}
    found = verify.sure([*verdicts.values()])
    verify.show(console, found)
    wrong = [f"{size_text(one.block)}: {one.why}" for one in found if one.why]
    wrong = [*([summarised(slow)] if slow else []), *wrong]
    if wrong and noise and not changed:
        raise TooNoisy(f"nobody can tell while {noise}: {'; '.join(wrong)}")
    if changed or wrong:
        raise Outdated(f"tune again (./configure): {'; '.join([*changed, *wrong])}")
    sizes = f"{len(found)} size{'s' * (len(found) != 1)}"
    console.print(f"still right: generated/alltoall.c, at the {sizes} that matter most")


def other_rates_now(cluster: Cluster, job: Job, machine: Machine | None) -> list[str]:
    """Between which hosts messages pass at another speed than when the cluster was tuned: then each
    rank sent to the next, switch after switch."""
    if not machine or not machine.points or not cluster.follows_switches:
        return []
    before = machine.points.rates
    return verify.other_rates(cluster.host_of_rank(), before, rates_now(cluster, job))


def evidence_of_speed(
    place: Workplace, catalogue: Catalogue, table: DecisionTable
) -> dict[int, Evidence]:
    """What was measured of a table at a large block, on which the network's speed shows."""
    native, ranks = catalogue.variant("native"), table.ranks
    mine = linked(cell for (n, _), cell in read_cells(place, catalogue)[1].items() if n == ranks)
    large = [c for c in mine if c.block <= verify.LARGE and table.choice(c.block) in c.rounds]
    spread = spread_in(mine, native)
    return {c.block: weigh(c, table.choice(c.block), native, spread) for c in large[-1:]}


def make_plan(
    site: Site,
    place: Workplace,
    options: Namespace,
    settings: Mapping[str, Any],
    ranks: int,
    competitors: Mapping[str, Callable[[int], str]],
) -> benchmark.Plan:
    """What to time on so many ranks, and for how long."""
    effort = options.effort or settings["effort"]
    launches = options.launches or BENCH_LAUNCHES[effort]
    tuned = ranks if ranks in settings["ranks"] else max(settings["ranks"])
    return benchmark.Plan(
        ranks,
        options.sizes
        or benchmark.bench_sizes(sizes_of(place, settings, tuned), ranks, site.cluster.limit),
        BENCH_SECONDS[effort] * (1 + len(competitors) / 2),
        launches,
        competitors,
        options.cold,
        site.pace,
    )


def report_stage(console: Console, place: Workplace, catalogue: Catalogue) -> None:
    """Write build/report.html."""
    from search.analysis import report  # matplotlib takes a second to load

    cluster, _ = read_cluster(place.cluster)
    journal, cells = read_cells(place, catalogue)
    path = place.build / "report.html"
    findings = report.Findings(
        f"All-to-all on {describe(cluster)}",
        cells,
        journal.records,
        read_decision(place.decision, catalogue),
        read_machine(place.machine),
        report.read_bench(place.build / "bench.json"),
        cluster.limit,
    )
    report.write_report(path, findings)
    console.print(f"report: {path.relative_to(place.root)}")


def figures_stage(console: Console, options: Namespace, root: Path) -> None:
    """Tune and bench the clusters of doc/clusters that are named, or all; write doc/results.md."""
    from search.analysis.figures import make_figures  # matplotlib takes a second to load

    def run_cluster(path: Path, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "config.mk", folder)
        for stage in ("configure", "bench"):
            named = {"emulate": str(path), "fresh": True} if stage == "configure" else {}
            run(Namespace(**{**vars(options), "stage": stage, "journals": [], **named}), folder)
        return folder / "build" / "bench.json"

    make_figures(options.journals, root, run_cluster, lambda text: console.rule(text))


def model_stage(
    console: Console, site: Site, place: Workplace, catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    """Compare what the schedule model predicts with the journal, to which rounds of those that lead
    are added."""
    machine = read_machine(place.machine)
    journal, cells = read_cells(place, catalogue)
    if site.cluster.grid or not (machine and machine.points):
        raise UserError("no model: 'make probe' measures its parameters, not of a grid")
    cells = {key: whole(cell) for key, cell in cells.items()}
    start = build_simulator(place, site.cluster, site.tools, machine.points)
    predicted = {}
    for ranks in settings["ranks"]:
        with start(ranks) as simulator:
            for key, cell in cells.items():
                mine = predictions(cell, simulator.predict) if key[0] == ranks else {}
                if len(mine) > FIRST:
                    predicted[key] = mine
    if not predicted:
        raise UserError("too few variants are measured: --strategy=exhaustive times all")
    job = start_job(site, place, catalogue)
    if digest(site.fingerprint(job.library, settings["timing"])) != journal.fingerprint:
        job.close()
        raise UserError("the cluster is not as it was measured: 'make tune' measures it anew")
    leading = {key: leaders(cells[key], mine) for key, mine in predicted.items()}
    decisive: Cells = {}
    measure_rounds(console, site, place, job, journal, settings, final(decisive, leading), leading)
    for ranks in settings["ranks"]:
        rows = [
            agreement(cells[key], decisive[key], mine)
            for key, mine in predicted.items()
            if key[0] == ranks
        ]
        if rows:
            show(console, f"{describe(site.cluster)}: {ranks} ranks", rows)


def broadcasts_stage(
    console: Console, site: Site, place: Workplace, catalogue: Catalogue, options: Namespace
) -> None:
    """Judge models and descents by broadcasts, as the paper did; samples are kept in
    build/broadcasts.jsonl."""
    cluster = site.cluster
    ranks, machine = cluster.ranks, read_machine(place.machine)
    job = start_job(site, place, catalogue)
    if not (machine and machine.points):
        job = probe_stage(console, site, place, job)
        machine = read_machine(place.machine)
    if not (machine and machine.points):
        raise UserError("broadcasts need 2 ranks and more")
    journal = Journal(place.build / "broadcasts.jsonl", digest(site.fingerprint(job.library, "")))
    formulas = partial(completion, ranks=ranks, points=machine.points)
    with build_simulator(place, cluster, site.tools, machine.points)(ranks) as simulator:
        models = {
            "schedules": simulator.broadcast_seconds,
            "MagPIe": lambda tree, size, segment: formulas(tree, size=size, segment=segment),
        }
        saturates = broadcasts.is_saturated(job, ranks)
        for size in options.sizes or broadcasts.SIZES:
            say = partial(console.print, end="\r" if console.is_terminal else "\n")
            records = broadcasts.record(job, journal, ranks, size, say)
            cell = cells_of(records, broadcasts.variants(size))[ranks, size]
            where = f"broadcast of {size_text(size)} to {describe(cluster)}"
            broadcasts.show(console, where, broadcasts.compare_models(cell, models))
            adapt = partial(broadcasts.as_task, size=size, seconds=simulator.broadcast_seconds)
            compare_strategies(console, where, records, broadcasts.of_label, adapt)
            for row in broadcasts.pipelines(job, cell):
                console.print(
                    f"pipeline of {row.tree}: {size_text(row.segment)} in {row.seconds:.1f} s, "
                    f"{row.loss - 1:+.1%}"
                )
    console.print(
        "the network saturates: pipelines may mislead here"
        if saturates
        else "the network has its full cross-section: pipelines may be believed"
    )
    job.close()


def installation_stage(
    console: Console, place: Workplace, catalogue: Catalogue, options: Namespace
) -> None:
    """Install, after making what is not made yet; take away, or try out."""
    tools = read_toolchain(place.root / "config.mk")
    layout = installation.checked_layout(options.prefix, options.destdir)
    if options.stage == "install":
        if not (place.generated / "alltoall.c").exists():
            emit_stage(console, place, catalogue)
        installation.build_library(tools, place.generated, place.build)
        installation.install(place.root, layout, tools.version, console.print)
    elif options.stage == "uninstall":
        installation.uninstall(place.root, layout, tools.version, console.print)
    else:
        installation.check_installed(tools, layout, console.print)
