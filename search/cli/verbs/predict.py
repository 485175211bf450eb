"""Write what the schedule model expects of all that a journal holds, beside it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.cli.desk import Desk
from search.cli.measured import read_network
from search.cli.options import add_collective
from search.cli.workplace import build_simulator
from search.model.expectation import Expectations, foreseen_beside, write_foreseen
from search.results.journal import any_journal
from search.results.workload import Team


def add_options(parser: ArgumentParser) -> None:
    """Of which journal."""
    add_collective(parser)
    parser.add_argument("journal", metavar="JOURNAL", help="of this cluster, on all its ranks")


def run(desk: Desk, options: Namespace) -> None:
    """Ask the model of the last probe; ``compare-strategies`` reads what it says."""
    desk, path = desk.of(options.collective), Path(options.journal)
    cluster, collective = desk.configured()[0], desk.catalogue.collective
    network, team = read_network(desk), Team(cluster.ranks)
    asked = {
        (record.workload.block, record.label)
        for record in any_journal(path).of(collective.name)
        if record.label and record.workload.team == team
    }
    start = build_simulator(desk.place, cluster, desk.tools, network)
    model = Expectations(start(team), team, collective)
    for block, label in sorted(asked):
        model.of(desk.catalogue.variant(label), block)
    model.close()
    write_foreseen(foreseen_beside(path), model)
    desk.say(f"{foreseen_beside(path)}: {len(model.lines)} of {len(asked)} are expected")
