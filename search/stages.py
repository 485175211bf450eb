"""The stages of the way from a cluster to generated/alltoall.c; each one command."""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from search.algorithm import Catalogue
from search.cluster.hosts import make_cluster, read_cluster, write_cluster
from search.cluster.site import Site, digest
from search.decide import cells_of, decide
from search.decision import Decision, hashed_tree, read_decision, write_decision
from search.emission import emit_c, emit_h
from search.errors import EnvironmentFailure, UserError
from search.files import write_whole
from search.measure import bench as benchmark
from search.measure import timeline
from search.measure.job import Job, JobLost
from search.measure.journal import Journal
from search.measure.probe import probe, write_machine
from search.measure.runner import MeasuringRunner, OutOfTime
from search.measure.strategy import EFFORTS, QUICK_SIZES, SIZES, Cell, three_steps
from search.progress import Display, size_text
from search.summary import describe, list_catalogue, summary
from search.toolchain import SOURCE, TEMPLATES, read_toolchain

GENERIC = SOURCE / "search" / "presets" / "generic.toml"
PLAIN_WIDTH = 120
"""Columns where there is no terminal."""
RECORD_WARMUPS = 3
RECORD_PATIENCE = 120.0
BENCH_SECONDS = {"quick": 2.0, "normal": 6.0}


@dataclass(frozen=True)
class Workplace:
    """Where a build's files are."""

    root: Path

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def generated(self) -> Path:
        return self.root / "generated"

    @property
    def cluster(self) -> Path:
        return self.build / "cluster.json"

    @property
    def journal(self) -> Path:
        return self.build / "measurements.jsonl"

    @property
    def identity(self) -> Path:
        return self.build / "fingerprint.json"

    @property
    def decision(self) -> Path:
        return self.generated / "decision.toml"


def run(options: Namespace, root: Path) -> None:
    """Run the stage that the options name."""
    console = Console(quiet=options.quiet, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    place = Workplace(root)
    catalogue = Catalogue(TEMPLATES / "alltoall")
    if options.stage == "list":
        list_catalogue(console, catalogue)
    elif options.stage == "generic":
        emit_generic(console, place, catalogue)
    elif options.stage == "decide":
        decide_stage(console, place, catalogue)
    elif options.stage == "emit":
        emit_stage(console, place, catalogue)
    elif options.stage == "configure":
        configure_cluster(console, options, place, catalogue)
        cluster, _ = read_cluster(place.cluster)
        with Site(cluster, read_toolchain(root / "config.mk"), place.build) as site:
            job = start_job(site, place, catalogue)
            probe_stage(console, site, place, job)
            finished = tune_stage(console, site, place, catalogue, job)
        decision = decide_stage(console, place, catalogue)
        emit_stage(console, place, catalogue)
        summary(console, cluster, decision, finished)
    else:
        cluster, settings = read_cluster(place.cluster)
        with Site(cluster, read_toolchain(root / "config.mk"), place.build) as site:
            if options.stage == "bench":
                bench_stage(console, site, place, catalogue, options, settings)
                return
            if options.stage == "timeline":
                timeline_stage(console, site, place, catalogue, options)
                return
            job = start_job(site, place, catalogue)
            if options.stage == "probe":
                probe_stage(console, site, place, job)
                job.close()
            else:
                tune_stage(console, site, place, catalogue, job)


def configure_cluster(
    console: Console, options: Namespace, place: Workplace, catalogue: Catalogue
) -> None:
    """Settle the cluster and the search's settings; write build/cluster.json."""
    cluster = make_cluster(options, os.environ)
    catalogue.variants(cluster.ranks, options.only)  # names must be known
    settings = {
        "sizes": options.sizes or (QUICK_SIZES if options.effort == "quick" else SIZES),
        "effort": options.effort,
        "only": options.only,
        "time_limit": options.time_limit,
    }
    console.print(f"cluster: {describe(cluster)}")
    if cluster.kind == "local":
        console.print(
            "no cluster named: tuning for this machine alone (--hostfile or --emulate name one)"
        )
    if options.fresh:
        place.journal.unlink(missing_ok=True)
    write_cluster(place.cluster, cluster, settings)


def start_job(
    site: Site, place: Workplace, catalogue: Catalogue, program: str = "measure", *define: str
) -> Job:
    """Build the measuring job with every algorithm in it, and start it."""
    source = place.build / "catalogue.c"
    generic = read_decision(GENERIC, catalogue)
    every = replace(generic, tree=hashed_tree(site.cluster.topology))
    write_whole(source, emit_c(every, catalogue, TEMPLATES, all_bodies=True))
    write_whole(place.build / "alltoall.h", emit_h(TEMPLATES))
    site.tools.compile_job(source, place.build / program, ["ATALL_EVERY", *define])
    return site.start_job(place.build / program)


def probe_stage(console: Console, site: Site, place: Workplace, job: Job) -> None:
    """Measure the network itself; write build/machine.json."""
    console.print("probe: the network itself, for some ten seconds")
    machine = probe(site.cluster, job, lambda text: console.print(f"probe: {text}"))
    write_machine(place.build / "machine.json", machine)


def tune_stage(
    console: Console, site: Site, place: Workplace, catalogue: Catalogue, job: Job
) -> bool:
    """Search, with every sample in the journal; False if the time limit ended it."""
    cluster, settings = read_cluster(place.cluster)
    fields = site.fingerprint(job.library)
    journal = Journal(place.journal, digest(fields))
    compare_fingerprint(console, place, fields, journal)
    if journal.torn:
        console.print("tune: the journal's last line was cut off and is measured again")
    few = settings["effort"] == "quick"
    every = catalogue.variants(cluster.ranks, tuple(settings["only"]), few)
    variants = [variant for variant in every if variant.named("ranking") in (None, *job.rankings)]
    sizes = settings["sizes"]
    begin = time.monotonic()
    deadline = begin + settings["time_limit"] if settings["time_limit"] else None
    console.print(
        f"tune: {len(variants)} variants at {len(sizes)} sizes"
        + (f", {len(journal.records)} samples are there already" if journal.records else "")
    )
    cells: dict[int, Cell] = {}
    finished = True
    with Display(console, sizes) as display:
        runner = MeasuringRunner(
            job,
            lambda: site.start_job(place.build / "measure"),
            journal,
            display,
            cluster.limit,
            deadline,
        )
        try:
            runner.run(three_steps(cells, sizes, variants, EFFORTS[settings["effort"]]))
        except OutOfTime:
            finished = False
        finally:
            runner.close()
    console.print(
        f"tune: {runner.fresh_samples} calls timed in {time.monotonic() - begin:.0f} s"
        + ("" if finished else "; the time limit came first")
    )
    return finished


def compare_fingerprint(
    console: Console, place: Workplace, fields: dict[str, object], journal: Journal
) -> None:
    """Say what changed since the last tuning, and keep the fingerprint."""
    try:
        before = json.loads(place.identity.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    after = json.loads(json.dumps(fields))
    changed = [key for key in after if key in before and after[key] != before[key]]
    if changed and journal.foreign and not journal.records:
        console.print(
            f"tune: changed since the last tuning: {', '.join(changed)}; all is measured anew"
        )
    write_whole(place.identity, json.dumps(fields, indent=1, sort_keys=True) + "\n")


def decide_stage(console: Console, place: Workplace, catalogue: Catalogue) -> Decision:
    """Make generated/decision.toml of the journal."""
    cluster, settings = read_cluster(place.cluster)
    fields = read_identity(place)
    journal = Journal(place.journal, digest(fields))
    variants = catalogue.variants(cluster.ranks, tuple(settings["only"]))
    cells = cells_of(journal.records, variants)
    if not cells:
        raise UserError("nothing is measured yet: run ./configure or 'make tune' first")
    tables = decide(cluster.ranks, cells, settings["sizes"], variants, cluster.limit)
    decision = Decision(
        tables,
        {
            "library": fields["library"],
            "ranks": cluster.ranks,
            "hosts": sorted(set(fields["hosts"])),
            "fingerprint": digest(fields),
        },
        hashed_tree(cluster.topology),
    )
    decision.check(str(place.decision))
    write_decision(place.decision, decision)
    return decision


def read_identity(place: Workplace) -> dict[str, Any]:
    """The fingerprint of the last tuning."""
    try:
        return dict(json.loads(place.identity.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UserError("nothing is measured yet: run ./configure or 'make tune' first") from error


def emit_stage(console: Console, place: Workplace, catalogue: Catalogue) -> None:
    """Write generated/alltoall.c and .h from generated/decision.toml."""
    if not place.decision.exists():
        emit_generic(console, place, catalogue)
        return
    decision = read_decision(place.decision, catalogue)
    write_whole(place.generated / "alltoall.h", emit_h(TEMPLATES))
    write_whole(place.generated / "alltoall.c", emit_c(decision, catalogue, TEMPLATES))


def emit_generic(console: Console, place: Workplace, catalogue: Catalogue) -> None:
    """Write the untuned file, from the generic preset."""
    decision = read_decision(GENERIC, catalogue)
    write_decision(place.decision, decision)
    emit_stage(console, place, catalogue)
    console.print("generated/alltoall.c is untuned (generic): ./configure on the cluster tunes it")


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
    job = start_job(site, place, catalogue, "record", "ATALL_RECORD")
    try:
        for _ in range(RECORD_WARMUPS):
            job.ask(f"time {label} {block} 0 1", RECORD_PATIENCE)
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
    limit = cluster.limit(block)
    console.print(f"{title}: {timeline.describe(rows, messages)}")
    if limit:
        console.print(f"the physical limit is {limit * 1e3:.1f} ms")
    console.print("the picture is build/timeline.svg, the recording build/timeline.json")


def bench_stage(
    console: Console,
    site: Site,
    place: Workplace,
    catalogue: Catalogue,
    options: Namespace,
    settings: dict[str, Any],
) -> None:
    """Compare the generated file with the library; write build/bench.json."""
    decision = read_decision(place.decision, catalogue)
    cluster = site.cluster
    program = place.build / "bench"
    site.tools.compile_job(place.generated / "alltoall.c", program)
    job = site.start_job(program)
    competitors = job.forced if options.competitors else []
    if options.competitors and not competitors:
        raise UserError("COMPETITORS=1: this MPI library has no algorithms that can be forced")
    try:
        rows = benchmark.run_bench(
            job,
            options.sizes or benchmark.bench_sizes(settings["sizes"]),
            cluster.limit,
            lambda block: benchmark.chosen_label(decision, cluster.ranks, block),
            BENCH_SECONDS[settings["effort"]] * (1 + len(competitors) / 2),
            lambda text: console.print(f"bench {text}"),
            competitors,
        )
    finally:
        job.close()
    benchmark.show(console, rows, describe(cluster))
    benchmark.write_rows(place.build / "bench.json", rows)
