"""How well the schedule model knows a cluster: its predictions beside what was measured.

Of fifty variants with a dozen visits each the one that comes out best is, as often as not, the one
that was lucky. So those that lead, by either, are measured in further rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau

from search.catalogue.algorithm import Variant
from search.results.cell import EQUAL, Cell
from search.results.samples import Sample, score
from search.results.workload import Workload
from search.sizes import size_text
from search.strategy.racing import FIRST
from search.strategy.request import Cells, Search, calls_seconds, play

LEADERS = 12
"""So many of those that were measured best are measured further."""
LEAST_ROUNDS, MOST_ROUNDS = 15, 60
ROUND_SECONDS = 20.0
"""Of calls at one block, after which LEAST_ROUNDS are enough."""

Predict = Callable[[Variant, int], "Sample | None"]
"""What a variant does at a block, in bytes to each peer; None: the model cannot tell."""


@dataclass(frozen=True)
class Agreement:
    """The model and the measurements at one block.

    ``tau`` is Kendall's, of both rankings; ``best`` was measured best and stands at ``place`` of
    the model's ranking, from 1; ``loss`` is how many times slower than it the best of the model's
    first FIRST was measured, which ``is_known`` if the interval of their ratio says so; ``ratio``
    is predicted over measured, the median of all variants.
    """

    ranks: int
    block: int
    variants: int
    tau: float
    best: Variant
    place: int
    first: Variant
    loss: float
    is_known: bool
    ratio: float


def predictions(cell: Cell, predict: Predict) -> dict[Variant, float]:
    """Seconds that the model expects of the variants of a cell, by the score that measurements
    have; the library's own is none of ours."""
    found = {v: predict(v, cell.block) for v in cell.variants if not v.body.algorithm.is_native}
    return {variant: score([sample]) for variant, sample in found.items() if sample}


def whole(cell: Cell) -> Cell:
    """The rounds that all variants have in common; all rounds if there are none."""
    numbers = set.intersection(*(set(rounds) for rounds in cell.rounds.values()))
    if not numbers:
        return cell
    kept = {v: {n: rounds[n] for n in sorted(numbers)} for v, rounds in cell.rounds.items()}
    return Cell(cell.workload, kept)


def leaders(cell: Cell, predicted: Mapping[Variant, float]) -> tuple[Variant, ...]:
    """Those that were measured best, and those that the model ranks first or nearly so."""
    measured = sorted(predicted, key=cell.score)
    ranking = sorted(predicted, key=predicted.__getitem__)
    return tuple(dict.fromkeys([*measured[:LEADERS], *ranking[: 2 * FIRST]]))


def final(cells: Cells, leading: Mapping[Workload, Sequence[Variant]]) -> Search:
    """Fill ``cells`` with rounds of those that lead."""
    for workload, variants in leading.items():
        cell = cells.setdefault(workload, Cell(workload))
        alive = list(variants)
        for done in range(MOST_ROUNDS):
            spent = calls_seconds(sample for v in cell.variants for sample in cell.samples(v))
            if not alive or (done >= LEAST_ROUNDS and spent > ROUND_SECONDS):
                break
            alive = yield from play(cell, alive)


def agreement(cell: Cell, decisive: Cell, predicted: Mapping[Variant, float]) -> Agreement:
    """Compare more than FIRST variants: ``cell`` has them all, ``decisive`` those that lead."""
    measured = {variant: cell.score(variant) for variant in predicted}
    ranking = sorted(predicted, key=predicted.__getitem__)
    best = decisive.best()
    chosen = decisive.best(v for v in ranking[:FIRST] if v in decisive.rounds)
    tau = float(kendalltau(list(measured.values()), [predicted[v] for v in measured])[0])
    return Agreement(
        cell.ranks,
        cell.block,
        len(ranking),
        0.0 if math.isnan(tau) else tau,  # all are predicted the same: that is no ranking
        best,
        1 + ranking.index(best),
        ranking[0],
        decisive.score(chosen) / decisive.score(best),
        chosen != best and decisive.ratio(chosen, best).low > 1,
        statistics.median(predicted[variant] / measured[variant] for variant in ranking),
    )


def show(console: Console, title: str, rows: Sequence[Agreement]) -> None:
    """A row for each block, and the shares of them all."""
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    for name in ("block", "variants", "tau", "best of the first three", "place", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("measured best")
    table.add_column("predicted best")
    for row in rows:
        table.add_row(
            size_text(row.block),
            str(row.variants),
            f"{row.tau:.2f}",
            f"{row.loss - 1:+.1%}" + ("" if row.is_known or row.loss <= EQUAL else "?"),
            str(row.place),
            f"{row.ratio:.2f}",
            row.best.label,
            row.first.label,
        )
    console.print(table)
    equal = sum(row.loss <= EQUAL for row in rows)
    worse = sum(row.loss > EQUAL and row.is_known for row in rows)
    console.print(
        f"among the first three: the very best at {sum(row.place <= FIRST for row in rows)} of "
        f"{len(rows)} blocks, one within {EQUAL - 1:.0%} of it at {equal}, significantly worse "
        f"ones only at {worse}; tau {statistics.mean(row.tau for row in rows):.2f}"
    )
