"""Strategies compared: each replays a recorded exhaustive search, and is judged by all of it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console
from rich.table import Table

from search.catalogue.algorithm import Variant
from search.decide.decision import DecisionTable
from search.decide.rows import WINNERS_TO_CONFIRM, decide_table
from search.errors import UserError
from search.measure.replay import ReplayRunner
from search.results.cell import Cell, cells_of
from search.results.record import Record
from search.results.workload import Team
from search.strategy import STRATEGIES
from search.strategy.confirming import confirming
from search.strategy.request import EFFORTS, Cells, Expectation, Expects, Task

REPLAYS = 20
REFERENCE = "exhaustive"
NOISY_MEDIAN = 1.5
"""Beyond this a score differs for its tail, of which the medians' interval knows nothing."""


@dataclass(frozen=True)
class Result:
    """What a strategy cost and lost: means over replays; ``regret`` holds, for each replay and
    block, how much slower its choice is than the exhaustive one, by all recorded samples, and
    ``known`` the same where the noise lets one tell, else 0. For the exhaustive search they are
    those of decisions on a random half of its rounds: what noise alone costs."""

    strategy: str
    visits: float
    seconds: float
    regret: tuple[float, ...]
    known: tuple[float, ...]


def compare_strategies(
    console: Console,
    name: str,
    records: Sequence[Record],
    variant_of: Callable[[str], Variant],
    expects: Expects | None = None,
) -> list[Result]:
    """Replay a journal under every strategy and print a row for each; ``variant_of`` gives the
    variant of a label, ``expects`` what a model says: who asks it is replayed without it, too."""
    failed = {record.label for record in records if record.failure}
    labels = {record.label for record in records if record.label} - failed
    variants = sorted((variant_of(x) for x in labels), key=lambda v: v.simplicity)
    team = max((record.workload.team for record in records), default=Team(0))
    ranks = team.ranks
    cells = {
        cell.block: cell
        for cell in cells_of(records, variants).values()
        if cell.workload.team == team
        and all(v in cell.rounds for v in variants if v.fits(ranks, cell.block))
    }
    if not cells:
        raise UserError(f"{name}: no block has times of all variants: --strategy=exhaustive does")
    mine = [
        r for r in records if r.failure or (r.workload.team == team and r.workload.block in cells)
    ]
    known = set(variants)
    task = Task(
        ranks,
        tuple(sorted(cells)),
        tuple(variants),
        EFFORTS["normal"],
        lambda variant: [v for v in variant.near(ranks) if v in known],
        between=False,
        collective=variants[0].body.algorithm.collective.name,
        placement=team.placement,
    )
    reference = decide_table(list(cells.values()), task.sizes, variants[0])
    results = [
        result
        for strategy in sorted(STRATEGIES, key=lambda s: s != REFERENCE)
        for result in ablation(strategy, mine, task, cells, reference, expects)
    ]
    show(console, f"{name}: {len(variants)} variants, {len(cells)} blocks, {team.text}", results)
    return results


def ablation(
    strategy: str,
    records: Sequence[Record],
    task: Task,
    cells: Mapping[int, Cell],
    reference: DecisionTable,
    expects: Expects | None,
) -> list[Result]:
    """A strategy with the model, if it asks one, and without."""
    was_asked = False

    def ask(variant: Variant, block: int) -> Expectation | None:
        nonlocal was_asked
        was_asked = True
        return expects(variant, block) if expects else None

    found = replay(strategy, records, replace(task, expects=ask), cells, reference)
    if not (expects and was_asked):
        return [found]
    named = replace(found, strategy=f"{strategy}, with the model")
    return [named, replay(strategy, records, task, cells, reference)]


def replay(
    strategy: str,
    records: Sequence[Record],
    task: Task,
    cells: Mapping[int, Cell],
    reference: DecisionTable,
) -> Result:
    """One strategy, in replays that differ in the order of the recorded rounds."""
    native = task.variants[0]
    runners, losses = [], []
    for seed in range(REPLAYS):
        found: Cells = {}
        runners.append(ReplayRunner(records, seed))
        runners[-1].run(STRATEGIES[strategy](found, task))
        if strategy == REFERENCE:
            found = {workload: half(cell, seed) for workload, cell in found.items()}
        else:
            for winners in WINNERS_TO_CONFIRM:
                runners[-1].run(confirming(found, task, winners([*found.values()], native)))
        table = decide_table(list(found.values()), task.sizes, native)
        losses += [lost(cell, table, reference) for cell in cells.values()]
    return Result(
        strategy,
        statistics.mean(runner.visits for runner in runners),
        statistics.mean(runner.seconds for runner in runners),
        tuple(loss for loss, _ in losses),
        tuple(loss if is_known else 0.0 for loss, is_known in losses),
    )


def half(cell: Cell, seed: int) -> Cell:
    """A random half of a cell's rounds."""
    numbers = sorted({n for rounds in cell.rounds.values() for n in rounds})
    kept = set(random.Random(seed).sample(numbers, (len(numbers) + 1) // 2))
    rounds = {v: {n: s for n, s in mine.items() if n in kept} for v, mine in cell.rounds.items()}
    return Cell(cell.workload, {v: mine for v, mine in rounds.items() if mine})


def lost(cell: Cell, table: DecisionTable, reference: DecisionTable) -> tuple[float, bool]:
    """How much slower a table's choice at a block is than another's, 0 where it is faster; and
    whether the interval of their ratio says so, too."""
    mine, other = table.choice(cell.block), reference.choice(cell.block)
    ratio = cell.score(mine) / cell.score(other)
    is_known = ratio > 1 and (cell.ratio(mine, other).low > 1 or ratio > NOISY_MEDIAN)
    return max(0.0, ratio - 1), is_known


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(console: Console, title: str, results: Sequence[Result]) -> None:
    """The table that people read."""
    whole = next(result.seconds for result in results if result.strategy == REFERENCE)
    table = Table(title=title, box=box.SIMPLE)
    table.add_column("strategy")
    for heading in (
        "experiments",
        "seconds",
        "of exhaustive",
        "regret",
        "p95",
        "worst",
        "distinguishable",
    ):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.strategy,
            f"{result.visits:.0f}",
            f"{result.seconds:.0f}",
            f"{result.seconds / whole:.1%}",
            f"{statistics.mean(result.regret):.2%}",
            f"{percentile(result.regret, 0.95):.2%}",
            f"{max(result.regret):.2%}",
            f"{statistics.mean(result.known):.2%}, {percentile(result.known, 0.95):.2%}, "
            f"{max(result.known):.2%}",
        )
    console.print(table)
