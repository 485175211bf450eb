"""See whether what was tuned is still right: a minute instead of a tuning."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from search.analysis import bench as benchmark
from search.analysis import verify
from search.cli.bench_job import build_bench
from search.cli.desk import Desk
from search.cli.measured import read_cells
from search.cli.tuning import make_gates
from search.cli.workplace import read_identity
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.site import Site
from search.decide.claim import spread_in
from search.decide.decision import DecisionTable, Evidence
from search.decide.decision_file import read_decision
from search.decide.rows import weigh
from search.errors import Outdated, TooNoisy, UserError, summarised
from search.measure.probe import Machine, rates_now, read_machine
from search.results.cell import linked
from search.sizes import size_text


def run(desk: Desk, options: Namespace) -> None:
    """See; Outdated says what is not right, TooNoisy why nobody can tell."""
    with desk.site() as site:
        verify_now(desk, site)


def verify_now(desk: Desk, site: Site) -> None:
    """See whether the hosts are as they were tuned for and the rows that gain most are still right;
    Outdated says what is not, TooNoisy why nobody can tell."""
    place, catalogue, (_, settings) = desk.place, desk.catalogue, desk.configured()
    decision = read_decision(place.decision, catalogue)
    table = decision.tables[0]
    evidence = verify.what_matters(table)
    if not evidence:
        raise UserError("generated/alltoall.c is not tuned: ./configure on the cluster does that")
    evidence |= evidence_of_speed(desk, table)
    rivals = {block: one.runner_up or "library" for block, one in evidence.items()}
    named = [catalogue.variant(label) for label in rivals.values() if label != "library"]
    program = build_bench(desk, decision, named)
    jobs = [site.start_job(program)]
    fields = site.fingerprint(jobs[0].library, settings.timing)
    changed = verify.changes(read_identity(place), fields)
    for text in changed:
        desk.say(f"verify: {text}")
    machine = read_machine(place.machine)
    tests = machine.null_tests if machine else None
    noise = verify.noise(
        site.cluster,
        jobs[0],
        make_gates(site.cluster),
        tests,
        catalogue.contention_free(site.cluster.ranks).label,
    )
    slow = other_rates_now(site.cluster, jobs[0], machine)

    def time_blocks(blocks: Sequence[int]) -> list[verify.Verdict]:
        plan = verify.plan(table.team, blocks, rivals, site.pace)
        timed = benchmark.run_bench(
            lambda: jobs.pop() if jobs else site.start_job(program),
            plan,
            site.cluster.limit,
            lambda text: desk.console.print(f"verify {text}"),
        )
        chosen = partial(benchmark.chosen_label, decision, site.cluster.placement(table.team))
        rows = benchmark.make_rows(timed, plan, site.cluster.limit, chosen)
        return [verify.judge(*both, evidence[both[1].block]) for both in zip(rows, timed)]

    verdicts = {one.block: one for one in time_blocks([*evidence])}
    doubtful = [block for block, one in verdicts.items() if one.why]
    if doubtful:
        verdicts |= {one.block: one for one in time_blocks(doubtful)}
    found = verify.sure([*verdicts.values()])
    verify.show(desk.console, found)
    wrong = [f"{size_text(one.block)}: {one.why}" for one in found if one.why]
    wrong = [*([summarised(slow)] if slow else []), *wrong]
    if wrong and noise and not changed:
        raise TooNoisy(f"nobody can tell while {noise}: {'; '.join(wrong)}")
    if changed or wrong:
        raise Outdated(f"tune again (./configure): {'; '.join([*changed, *wrong])}")
    sizes = f"{len(found)} size{'s' * (len(found) != 1)}"
    desk.console.print(f"still right: generated/alltoall.c, at the {sizes} that matter most")


def other_rates_now(cluster: Cluster, job: Job, machine: Machine | None) -> list[str]:
    """Between which hosts messages pass at another speed than when the cluster was tuned: then each
    rank sent to the next, switch after switch."""
    if not machine or not machine.network or not cluster.follows_switches:
        return []
    before = machine.network.rates
    return verify.other_rates(cluster.host_of_rank(), before, rates_now(cluster, job))


def evidence_of_speed(desk: Desk, table: DecisionTable) -> dict[int, Evidence]:
    """What was measured of a table at a large block, on which the network's speed shows."""
    native, cells = desk.catalogue.native, read_cells(desk)[1].values()
    mine = linked(cell for cell in cells if cell.workload.team == table.team)
    large = [c for c in mine if c.block <= verify.LARGE and table.choice(c.block) in c.rounds]
    spread = spread_in(mine, native)
    return {c.block: weigh(c, table.choice(c.block), native, spread) for c in large[-1:]}
