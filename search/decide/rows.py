"""The decide stage: samples in, tables out; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from search.catalogue.algorithm import Variant
from search.cluster.placement import Placement
from search.cluster.topology import FULL_FRAME
from search.decide.claim import indistinguishable, spread_in, winners_of
from search.decide.decision import Cutoff, DecisionTable, Evidence, Ratio, merge_equal
from search.results.cell import Cell, between, linked
from search.results.samples import TIMEOUT, modes, sits_on_ticks
from search.results.workload import Limit, Team, Workload

DISTURBED_MARGIN = 1.5
FAR = 0.5

Predicted = Mapping[tuple[Team, int, str], float]
"""Seconds that the schedule model expected, by team, block and label."""


def unknown_limit(workload: Workload) -> float | None:
    """The limit where no speed is known."""
    return None


def decide(
    cells: Mapping[Workload, Cell],
    sizes: Callable[[Team], Sequence[int]],
    native: Variant,
    limit: Limit = unknown_limit,
    predicted: Predicted | None = None,
    is_disturbed: bool = False,
    placement_of: Callable[[Team], Placement] | None = None,
) -> tuple[DecisionTable, ...]:
    """Tables for each number of ranks that was measured, the largest first: of each as many as
    there are needs that its rows may have and a communicator may lack. ``sizes`` gives the blocks
    that were to be searched on so many ranks; ``predicted`` is shown beside them. Where
    processors were short (``is_disturbed``) they, not the network, decide what is best for small
    blocks: another than the library's own must be DISTURBED_MARGIN times faster there.
    ``placement_of`` says how a team's ranks lay: then what is far from all of that is the library's
    own."""
    tables: list[DecisionTable] = []
    teams = {workload.team for workload in cells}
    for team in sorted(teams, key=lambda one: (-one.ranks, one.placement)):
        mine = [cell for cell in cells.values() if cell.workload.team == team]
        if is_disturbed:
            mine = [_doubted(cell, limit(cell.workload)) for cell in mine]

        def make(left: Sequence[Cell], team: Team = team) -> DecisionTable:
            return decide_table(left, sizes(team), native, limit, predicted)

        where = placement_of(team) if placement_of else Placement(team.ranks)
        tables += [
            replace(
                table,
                hosts=where.hosts,
                each=where.each,
                load=where.load,
                placement=team.placement,
            )
            for table in _tables_by_needs(mine, make)
        ]
    if placement_of:
        elsewhere = Cutoff(None, native, "far from all that was measured")
        tables.append(DecisionTable(0, (elsewhere,)))
    return tuple(sorted(tables, key=lambda table: bool(table.requires), reverse=True))


def _tables_by_needs(
    cells: Sequence[Cell], make: Callable[[Sequence[Cell]], DecisionTable]
) -> list[DecisionTable]:
    """The table of all variants; and wherever rows of one require something, that of the variants
    that do not, so that one row takes no other away from who cannot have it."""
    found: dict[frozenset[str], DecisionTable] = {}
    waiting: list[frozenset[str]] = [frozenset()]
    while waiting:
        lacking = waiting.pop(0)
        kept = [
            cell.restricted([v for v in cell.rounds if not v.requires & lacking])
            if lacking
            else cell
            for cell in cells
        ]
        found[lacking] = make([cell for cell in kept if cell.rounds])
        further = (lacking | {one} for one in sorted(found[lacking].requires))
        waiting += [one for one in further if one not in found and one not in waiting]
    return list(dict.fromkeys(found.values()))


def _doubted(cell: Cell, bound: float | None) -> Cell:
    """A cell of a disturbed machine, with a wider margin where it is the processors' rather than
    the network's: blocks in one frame, and those far from the bandwidth bound."""
    is_far = (bound or 0.0) < FAR * cell.score(cell.best())
    is_small = cell.block <= FULL_FRAME or is_far
    return replace(cell, margin=DISTURBED_MARGIN) if is_small else cell


def decide_table(
    cells: Sequence[Cell],
    sizes: Sequence[int],
    native: Variant,
    limit: Limit = unknown_limit,
    predicted: Predicted | None = None,
) -> DecisionTable:
    """One table: each row's variant beat the one before it, or the library's own, with confidence;
    cut-offs where their times cross. What led before it was confirmed, and lost, is named.

    Blocks beyond the largest measured one, where the search did not get to all of ``sizes``, are
    left to the library's own.
    """
    ordered, spread = linked(cells), spread_in(cells, native)
    ranks = ordered[0].ranks
    winners = winners_of(ordered, native, spread)
    leaders = dict(searched_winners(cells, native))
    cutoffs = []
    for i, (cell, winner) in enumerate(zip(ordered, winners)):
        leader = leaders.get(cell.block)
        evidence = structs.replace(
            weigh(cell, winner, native, spread, limit(cell.workload)),
            predicted=(predicted or {}).get((cell.workload.team, cell.block, winner.label)),
            fell=leader.label if leader and _has_fallen(cell, leader, winner) else None,
        )
        most = None
        if i + 1 < len(ordered):
            most = cut_off(cell, winner, ordered[i + 1], winners[i + 1])
        elif cell.block < max(sizes):
            most = cell.block
        cutoffs.append(Cutoff(most, winner, evidence=evidence))
    merged = merge_equal(cutoffs)
    if merged[-1].most is not None:
        merged += (Cutoff(None, native, "not measured: the search ended before"),)
    return DecisionTable(ranks, merged)


def searched_winners(cells: Sequence[Cell], native: Variant) -> list[tuple[int, Variant]]:
    """Each block with the variant that the search alone would give it: what is to be confirmed."""
    return decided_winners([cell for cell in (c.searched() for c in cells) if cell.rounds], native)


def decided_winners(cells: Sequence[Cell], native: Variant) -> list[tuple[int, Variant]]:
    """Each block with the variant that all that is known would give it."""
    ordered = linked(cells)
    winners = winners_of(ordered, native, spread_in(ordered, native))
    return [(cell.block, winner) for cell, winner in zip(ordered, winners)]


WINNERS_TO_CONFIRM = searched_winners, decided_winners
"""Confirmed one after the other: what the search found, and what arises from confirming that."""


def _has_fallen(cell: Cell, leader: Variant, winner: Variant) -> bool:
    """Whether what led in the search was timed again, and lost its row."""
    return leader != winner and not cell.confirming.isdisjoint(cell.rounds.get(leader, ()))


def cut_off(low: Cell, winner: Variant, high: Cell, following: Variant) -> int:
    """The largest block that the winner of a cell serves, before that of the next takes over:
    where their times cross if both were timed in both cells, else halfway."""
    middle = max(low.block, between(low.block, high.block))
    if any(v not in cell.rounds for v in (winner, following) for cell in (low, high)):
        return middle
    ahead = math.log(low.score(following) / low.score(winner))
    behind = math.log(high.score(winner) / high.score(following))
    if ahead <= 0 or behind <= 0:
        return middle
    share = ahead / (ahead + behind)
    crossing = int(low.block * (high.block / low.block) ** share)
    return min(max(low.block, crossing), high.block - 1)


def weigh(
    cell: Cell, winner: Variant, native: Variant, spread: float, limit: float | None = None
) -> Evidence:
    """What speaks for a variant at a block."""
    rivals = [v for v in cell.finalists if v not in (winner, native)]
    runner_up = cell.best(rivals) if rivals else None
    samples = cell.samples(winner)
    is_ahead = winner != native and native in cell.rounds
    seconds = cell.score(winner)
    times = [call for sample in samples for call in sample.calls]
    return Evidence(
        block=cell.block,
        seconds=seconds,
        native=_over(cell, native, winner, spread) if is_ahead else None,
        runner_up=runner_up.label if runner_up else None,
        ahead=_over(cell, runner_up, winner, spread) if runner_up else None,
        calls=len(times),
        rounds=len(samples),
        launches=len({sample.launch for sample in samples}),
        disturbed=len(cell.rounds[winner]) - len(samples),
        retransmissions=sum(sample.retransmissions for sample in samples),
        of_limit=limit / seconds if limit else None,
        modes=modes(times),
        on_ticks=sits_on_ticks(times),
        dilation=round(samples[0].timeout / TIMEOUT),
        undecided=tuple(v.label for v in indistinguishable(cell, winner, spread)),
    )


def _over(cell: Cell, other: Variant, winner: Variant, spread: float) -> Ratio:
    """One variant over another, by calls timed together and by score."""
    ratio = cell.claim(other, winner, spread)
    return ratio.median, ratio.low, ratio.high, cell.score(other) / cell.score(winner)
