"""Compare what the schedule model predicts with what was measured."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from search.analysis import segments, validation
from search.analysis.compare import compare_strategies
from search.catalogue.algorithm import Variant
from search.catalogue.collective import DEFAULT
from search.cli.desk import Desk
from search.cli.measured import read_cells, read_journal, read_network
from search.cli.options import add_collective, sizes
from search.cli.summary import describe
from search.cli.tuning import make_task, measure_rounds
from search.cli.workplace import build_job, build_simulator
from search.cluster.job import Job
from search.cluster.site import Site
from search.errors import UserError
from search.measure.network import Network
from search.model.expectation import Expectations
from search.model.magpie import completion
from search.model.simulator import Simulator
from search.results.cell import Cell
from search.results.fingerprint import digest
from search.results.workload import Team, Workload
from search.sizes import size_text
from search.strategy.exhaustive import exhaustive
from search.strategy.racing import FIRST
from search.strategy.request import EFFORTS, Cells

Start = Callable[[Team], Simulator]
"""Starts the model for so many ranks."""
Predicted = Mapping[Workload, Mapping[Variant, float]]
"""Seconds that the model expects."""


def add_options(parser: ArgumentParser) -> None:
    """Of what."""
    add_collective(parser)
    parser.add_argument(
        "--sizes", type=sizes, help="blocks to measure of what is not tuned: 1K,128K"
    )


def run(desk: Desk, options: Namespace) -> None:
    """Compare them. What is not tuned is measured first, every variant of it, and every strategy
    searches in what was measured, with the model."""
    desk = desk.of(options.collective)
    network, is_tuned = read_network(desk), desk.catalogue.collective.name == DEFAULT
    with desk.site() as site:
        build_job(site.tools, site.cluster, desk.place)
        start = build_simulator(desk.place, site.cluster, site.tools, network)
        if not is_tuned:
            measure_all(desk, site, options.sizes)
        predicted = validate(desk, site, start)
        if not is_tuned:
            search_in(desk, site, start, predicted)
            judge_segments(desk, site, network, predicted)


def same_job(desk: Desk, site: Site) -> Job:
    """A measuring job on the cluster as it was measured; UserError if it is not."""
    _, settings = desk.configured()
    job = site.start_job(desk.place.build / "measure")
    if digest(site.fingerprint(job.library, settings.timing)) != read_journal(desk).fingerprint:
        job.close()
        raise UserError("the cluster is not as it was measured: 'make tune' measures it anew")
    return job


def measure_all(desk: Desk, site: Site, blocks: tuple[int, ...] | None) -> None:
    """Every variant on all ranks at some blocks, or at those that the collective names, as far as
    the journal does not hold it."""
    job = same_job(desk, site)
    task = make_task(desk, job, Team(site.cluster.ranks), everything=True)
    task = replace(task, rules=EFFORTS["quick"], sizes=blocks or task.sizes)
    workloads = [task.workload(block) for block in task.sizes]
    measure_rounds(desk, site, job, read_journal(desk), exhaustive({}, task), workloads)


def validate(desk: Desk, site: Site, start: Start) -> Predicted:
    """Compare the model with the journal, to which rounds of those that lead are added."""
    _, settings = desk.configured()
    journal, (_, cells) = read_journal(desk), read_cells(desk)
    cells = {key: validation.whole(cell) for key, cell in cells.items()}
    predicted = {}
    for team in settings.teams:
        with start(team) as simulator:
            for key, cell in cells.items():
                mine = validation.predictions(cell, simulator.predict) if key.team == team else {}
                if len(mine) > FIRST:
                    predicted[key] = mine
    if not predicted:
        raise UserError("too few variants are measured: --strategy=exhaustive times all")
    leading = {key: validation.leaders(cells[key], mine) for key, mine in predicted.items()}
    decisive: Cells = {}
    search = validation.final(decisive, leading)
    measure_rounds(desk, site, same_job(desk, site), journal, search, leading)
    for team in settings.teams:
        rows = [
            validation.agreement(cells[key], decisive[key], mine)
            for key, mine in predicted.items()
            if key.team == team
        ]
        if rows:
            validation.show(desk.console, f"{describe(site.cluster)}: {team.text}", rows)
    return predicted


def search_in(desk: Desk, site: Site, start: Start, predicted: Predicted) -> None:
    """What every strategy needs to find what is best of each block, with the model."""
    collective, team = desk.catalogue.collective, Team(site.cluster.ranks)
    records = read_journal(desk).of(collective.name)
    expectations = Expectations(start(team), team, collective)
    for workload in sorted(predicted):
        mine = [record for record in records if record.workload == workload]
        where = f"{collective.name} of {size_text(workload.block)} on {describe(site.cluster)}"
        compare_strategies(desk.console, where, mine, desk.catalogue.variant, expectations.of)
    expectations.close()


def judge_segments(desk: Desk, site: Site, network: Network, predicted: Predicted) -> None:
    """The best segments of trees, by measurement, models and the pipeline test."""
    cells = {key: cell for key, cell in read_cells(desk)[1].items() if segments.trees_of(cell)}
    job = same_job(desk, site)
    for key, cell in cells.items():
        title = f"{size_text(key.block)} down trees on {describe(site.cluster)}"
        segments.show(
            desk.console, title, segments.compare_models(cell, models_of(cell, network, predicted))
        )
        for row in segments.pipelines(job, cell):
            desk.say(
                f"pipeline of {row.tree}: {size_text(row.segment)} in {row.seconds:.1f} s, "
                f"{row.loss - 1:+.1%}"
            )
    if cells:
        desk.say(
            "the network saturates: pipelines may mislead here"
            if segments.is_saturated(job, site.cluster.ranks)
            else "the network has its full cross-section: pipelines may be believed"
        )
    job.close()


def models_of(cell: Cell, network: Network, predicted: Predicted) -> dict[str, segments.Model]:
    """What predicts a segment's seconds: schedules, and formulas."""
    formulas = partial(completion, ranks=cell.ranks, size=cell.block, network=network)
    return {
        "schedules": lambda tree, segment, variant: predicted[cell.workload][variant],
        "MagPIe": lambda tree, segment, variant: formulas(tree, segment=segment),
    }
