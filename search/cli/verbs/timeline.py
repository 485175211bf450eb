"""Record one exchange and draw it: build/timeline.svg and .json."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.analysis import timeline
from search.analysis.bench import chosen_label
from search.cli.desk import Desk
from search.cli.options import size
from search.cli.summary import describe
from search.cluster.job import JobLost
from search.cluster.site import Site
from search.decide.decision_file import read_decision
from search.errors import EnvironmentFailure, UserError
from search.results.workload import Team, Workload
from search.sizes import size_text

RECORD_WARMUPS = 3


def add_options(parser: ArgumentParser) -> None:
    """What to record."""
    parser.add_argument("--block", type=size, default=65536, help="bytes to each peer")
    parser.add_argument("--variant", metavar="LABEL", help="instead of the chosen one")


def run(desk: Desk, options: Namespace) -> None:
    """Record and draw."""
    with desk.site() as site:
        draw_exchange(desk, site, options)


def draw_exchange(desk: Desk, site: Site, options: Namespace) -> None:
    """Record one exchange of the chosen variant, or of one that is named, and draw it."""
    console, place, catalogue = desk.console, desk.place, desk.catalogue
    block, label = options.block, options.variant
    if label is None:
        decision = read_decision(place.decision, catalogue)
        label = chosen_label(decision, site.cluster.placement(Team(site.cluster.ranks)), block)
    label = catalogue.variant(label).label
    if label == desk.catalogue.collective.native:
        raise UserError("the library's own messages cannot be recorded: name a VARIANT=")
    site.pace(block)
    job = desk.start_job(site, "record", "ATALL_RECORD")
    try:
        for _ in range(RECORD_WARMUPS):
            job.ask(f"time {label} {block} 0 1 barrier")
        answer = job.ask(f"record {label} {block}")
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
    limit = cluster.limit(Workload(cluster.ranks, block))
    console.print(f"{title}: {timeline.describe(rows, messages)}")
    if limit:
        console.print(f"the bandwidth bound is {limit * 1e3:.1f} ms")
    console.print("the picture is build/timeline.svg, the recording build/timeline.json")
