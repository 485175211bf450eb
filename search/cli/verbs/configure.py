"""Tune for a cluster: probe, search, decide, and write generated/alltoall.c."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from search.cli.configured import make_cluster, shrink, write_cluster
from search.cli.desk import Desk
from search.cli.dilation import dilate
from search.cli.options import count, counts, grid, names, size, sizes
from search.cli.settings import Settings
from search.cli.summary import describe, summary
from search.cli.tuning import Tuned, tune
from search.cli.verbs.decide import make_decision
from search.cli.verbs.generic import emit_generic
from search.cli.verbs.probe import probe_network
from search.cli.workplace import build_job, emit_decision
from search.cluster.backends import LAUNCHERS, backend_of
from search.cluster.hosts import ORDERS, Cluster
from search.cluster.site import Site
from search.decide.decision_file import read_decision
from search.errors import HostsFailed, Interrupted, UserError
from search.results.workload import Team
from search.strategy import DEFAULT, STRATEGIES
from search.strategy.profile import read_profile
from search.strategy.request import EFFORTS, QUICK_SIZES, SIZES


def add_options(parser: ArgumentParser) -> None:
    """The cluster, and how to search on it; ./configure --help says what each is for."""
    add = parser.add_argument
    add("--emulate", metavar="FILE")
    add("--emulate-buffer", dest="buffer", type=size, default=32768, metavar="BYTES")
    add("--emulate-slots", dest="slots", type=count, default=1, metavar="RANKS")
    add("--hostfile", metavar="FILE")
    add("--launcher", choices=LAUNCHERS)
    add("--np", type=counts, metavar="RANKS")
    add("--grid", type=grid, metavar="ROWSxCOLUMNS")
    add("--topology", metavar="FILE")
    add("--order", choices=ORDERS, default="switch")
    add("--placement", action="append", default=[], metavar="PLACEMENT")
    add("--strategy", choices=tuple(STRATEGIES), default=DEFAULT)
    add("--timing", choices=("isolated", "loop"), default="isolated")
    add("--effort", choices=tuple(EFFORTS), default="normal")
    add("--time-limit", type=count, metavar="SECONDS")
    add("--sizes", type=sizes)
    add("--profile", metavar="FILE")
    add("--only", type=names, default=(), metavar="ALGORITHMS")
    add("--accept-noise", action="store_true")
    add("--allow-shrink", action="store_true")
    resume = parser.add_mutually_exclusive_group()
    resume.add_argument("--resume", dest="fresh", action="store_false", default=False)
    resume.add_argument("--fresh", dest="fresh", action="store_true")


def run(desk: Desk, options: Namespace) -> None:
    """Tune, and show what was chosen."""
    configure_cluster(desk, options)
    cluster, tuned = measure(desk, options.allow_shrink)
    if not tuned.anything:
        end_too_early(desk)
    decision = make_decision(desk, tuned)
    emit_decision(desk.place, desk.catalogue)
    summary(desk.console, cluster, decision, tuned)


def configure_cluster(desk: Desk, options: Namespace) -> None:
    """Settle the cluster and the search's settings; write build/cluster.json."""
    if options.grid and options.np:
        raise UserError("--grid says how many ranks there are: leave out --np")
    if options.placement and (options.grid or options.profile):
        raise UserError("--placement says which ranks call: leave out --grid and --profile")
    cluster, introduction = make_cluster(options, os.environ)
    desk.catalogue.variants(cluster.ranks, options.only)  # names must be known
    settings = make_settings(options, cluster)
    keep_better(desk, cluster, options.fresh)
    desk.console.print(f"cluster: {describe(cluster)}")
    if introduction:
        desk.say(introduction)
    if options.fresh:
        desk.place.journal.unlink(missing_ok=True)
    write_cluster(desk.place.cluster, cluster, settings)


def make_settings(options: Namespace, cluster: Cluster) -> Settings:
    """What the options say of the search; UserError if a profile does not fit."""
    sides = tuple(sorted({side for side in cluster.grid if side > 1}))
    profile = read_profile(Path(options.profile), cluster.ranks) if options.profile else {}
    if profile and sides:
        profile = {ranks: blocks for ranks, blocks in profile.items() if ranks in sides}
        if not profile:
            raise UserError(f"{options.profile}: no call on rows or columns of the grid is in it")
    places = dict.fromkeys(options.placement)
    placed = tuple(Team(len(cluster.members(Team(0, one))), one) for one in places)
    return Settings(
        ranks=tuple(profile) or sides or options.np or (() if placed else (cluster.ranks,)),
        sizes=options.sizes or (QUICK_SIZES if options.effort == "quick" else SIZES),
        own_sizes=bool(options.sizes),
        strategy=options.strategy,
        timing=options.timing,
        effort=options.effort,
        only=options.only,
        time_limit=options.time_limit,
        accept_noise=options.accept_noise,
        profile=profile,
        placed=placed,
    )


def keep_better(desk: Desk, cluster: Cluster, fresh: bool) -> None:
    """See that what was tuned for a cluster is not replaced because none is named now."""
    place = desk.place
    if backend_of(cluster.backend).is_named or fresh or not place.decision.exists():
        return
    tuned = read_decision(place.decision, desk.catalogue).tuned
    if tuned and len(tuned.hosts) > 1:
        raise UserError(
            f"generated/alltoall.c is tuned for {len(tuned.hosts)} hosts, and no cluster is named: "
            "name one (--hostfile, --emulate), or --fresh tunes for this machine alone"
        )


def measure(desk: Desk, allow_shrink: bool) -> tuple[Cluster, Tuned]:
    """Probe and tune; if the user allows it, without the hosts that fail."""
    place, tools = desk.place, desk.tools
    while True:
        cluster, settings = desk.configured()
        try:
            program = build_job(tools, cluster, place)
            cluster, tests = dilate(desk, program)
            with Site(
                cluster, tools, place.build, lambda text: desk.say(f"cluster: {text}")
            ) as site:
                job = probe_network(desk, site, site.start_job(program), tests)
                return cluster, tune(desk, site, job)
        except HostsFailed as failure:
            if not allow_shrink:
                raise
            cluster, settings = shrink(cluster, settings, failure)
            names = ", ".join(failure.hosts)
            desk.say(f"excluded: {failure}")
            desk.console.print(
                f"cluster: without {names}, all is measured anew: {describe(cluster)}"
            )
            write_cluster(place.cluster, cluster, settings)


def end_too_early(desk: Desk) -> None:
    """The time limit came before anything was timed: leave an untuned file if there is none."""
    was_there = (desk.place.generated / "alltoall.c").exists()
    if not was_there:
        emit_generic(desk)
    raise Interrupted(
        "the time limit came before anything was timed: generated/alltoall.c is "
        f"{'as it was' if was_there else 'untuned'}; run configure again with more --time-limit="
    )
