"""Judge models and descents by broadcasts, as Vadhiyar, Fagg and Dongarra did."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from search.analysis import broadcasts
from search.analysis.compare import compare_strategies
from search.cli.desk import Desk
from search.cli.options import sizes
from search.cli.summary import describe
from search.cli.verbs.probe import probe_network
from search.cli.workplace import build_simulator
from search.cluster.site import Site
from search.errors import UserError
from search.measure.probe import read_machine
from search.model.magpie import completion
from search.results.cell import cells_of
from search.results.fingerprint import digest
from search.results.journal import Journal
from search.results.workload import Workload
from search.sizes import size_text


def add_options(parser: ArgumentParser) -> None:
    """Which sizes."""
    parser.add_argument("--sizes", type=sizes, help="bytes of messages, such as 8K,64K")


def run(desk: Desk, options: Namespace) -> None:
    """Judge them; samples are kept in build/broadcasts.jsonl."""
    with desk.site() as site:
        judge(desk, site, options)


def judge(desk: Desk, site: Site, options: Namespace) -> None:
    """Time broadcasts of all trees, or read them, and compare."""
    console, place, cluster = desk.console, desk.place, site.cluster
    ranks, machine = cluster.ranks, read_machine(place.machine)
    job = desk.start_job(site)
    if not (machine and machine.points):
        job = probe_network(desk, site, job)
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
            cell = cells_of(records, broadcasts.variants(size))[Workload(ranks, size)]
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
