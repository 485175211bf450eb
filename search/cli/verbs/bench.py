"""Compare the generated file with the MPI library, and with the bandwidth bound."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from search.analysis import bench as benchmark
from search.cli.bench_job import build_bench
from search.cli.desk import Desk
from search.cli.options import count, sizes
from search.cli.summary import describe
from search.cli.workplace import read_presets, sizes_of
from search.cluster.site import Site
from search.cluster.watch import TELLING_STEAL, processor_times
from search.decide.decision_file import read_decision
from search.results.workload import Team
from search.strategy.request import EFFORTS

SECONDS = {"quick": 0.3, "normal": 0.8, "thorough": 4.0}
"""Of a block in a launch."""
LAUNCHES = {"quick": 2, "normal": 3, "thorough": 5}


def add_options(parser: ArgumentParser) -> None:
    """What to compare, and for how long."""
    add = parser.add_argument
    add("--sizes", type=sizes, help="bytes to each peer, such as 8K,64K")
    add("--effort", choices=tuple(EFFORTS), help="that of the tuning else")
    add("--launches", type=count, help="of the job")
    add("--competitors", action="store_true", help="each of the library's own algorithms, too")
    add("--cold", action="store_true", help="after idleness, too")


def run(desk: Desk, options: Namespace) -> None:
    """Compare them."""
    with desk.site() as site:
        compare(desk, site, options)


def compare(desk: Desk, site: Site, options: Namespace) -> None:
    """Compare the generated file with the library, of a grid on rows and on columns; write
    build/bench.json."""
    console, place, (cluster, settings) = desk.console, desk.place, desk.configured()
    decision = read_decision(place.decision, desk.catalogue)
    presets = read_presets(desk.catalogue) if options.competitors else {}
    rivals = [row.variant for preset in presets.values() for row in preset.rows]
    program = build_bench(desk, decision, rivals)
    jobs = [site.start_job(program)]
    fields = site.fingerprint(jobs[0].library, settings.timing)
    forced = jobs[0].forced if options.competitors else []
    all_rows, before = [], processor_times()
    for team in settings.teams if cluster.grid or settings.placed else [Team(cluster.ranks)]:
        here = cluster.placement(team)
        competitors: dict[str, Callable[[int], str]] = {
            name: partial(_same, name) for name in forced
        }
        for name, preset in presets.items():
            competitors[f"preset {name}"] = partial(benchmark.chosen_label, preset, here)
        plan = make_plan(desk, site, options, team, competitors)
        timed = benchmark.run_bench(
            lambda: jobs.pop() if jobs else site.start_job(program),
            plan,
            cluster.limit,
            lambda text: console.print(f"bench {text}"),
        )
        chosen = partial(benchmark.chosen_label, decision, here)
        rows = benchmark.make_rows(timed, plan, cluster.limit, chosen)
        where = f"; communicators of {team.ranks} ranks, all at once" if cluster.grid else ""
        benchmark.show(console, rows, describe(cluster) + where + stolen(before))
        all_rows += rows
    circumstances = {
        "cluster": describe(cluster),
        **{
            key: fields[key] for key in ("library", "congestion control", "port buffer", "dilation")
        },
    }
    benchmark.write_rows(place.build / "bench.json", all_rows, circumstances)


def _same(label: str, block: int) -> str:
    """A label that serves all blocks."""
    return label


def stolen(before: Sequence[int]) -> str:
    """What the hypervisor gave to others since then, if that is worth a word."""
    spent = [after - begin for begin, after in zip(before, processor_times())]
    steal = spent[7] / max(1, sum(spent))
    return f"; steal {steal:.0%}" if steal >= TELLING_STEAL else ""


def make_plan(
    desk: Desk,
    site: Site,
    options: Namespace,
    team: Team,
    competitors: Mapping[str, Callable[[int], str]],
) -> benchmark.Plan:
    """What to time on a team, and for how long."""
    settings = desk.configured()[1]
    effort = options.effort or settings.effort
    launches = options.launches or LAUNCHES[effort]
    tuned = team if team in settings.teams else max(settings.teams)
    return benchmark.Plan(
        team,
        options.sizes
        or benchmark.bench_sizes(sizes_of(desk.place, settings, tuned), team, site.cluster.limit),
        SECONDS[effort] * (1 + len(competitors) / 2),
        launches,
        competitors,
        options.cold,
        site.pace,
    )
