"""How well the schedule model knows a cluster: its predictions beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from scipy.stats import kendalltau

from search.algorithm import Variant
from search.measure.samples import Sample, score
from search.progress import size_text
from search.strategy.cell import EQUAL, Cell
from search.strategy.racing import FIRST

Predict = Callable[[Variant, int], "Sample | None"]
"""What a variant does at a block, in bytes to each peer; None: the model cannot tell."""


@dataclass(frozen=True)
class Agreement:
    """The model and the measurements at one block.

    ``tau`` is Kendall's, of both rankings; ``best`` was measured best and stands at ``place`` of
    the model's ranking, from 1; ``loss`` is how many times slower than it the best of the model's
    first FIRST was measured; ``ratio`` is predicted over measured, the median of all variants.
    """

    ranks: int
    block: int
    variants: int
    tau: float
    best: Variant
    place: int
    first: Variant
    loss: float
    ratio: float


def predictions(cell: Cell, predict: Predict) -> dict[Variant, float]:
    """Seconds that the model expects of the variants of a cell, by the score that measurements
    have; the library's own is none of ours."""
    found = {v: predict(v, cell.block) for v in cell.variants if v.body.algorithm.name != "native"}
    return {variant: score([sample]) for variant, sample in found.items() if sample}


def agreement(cell: Cell, predicted: Mapping[Variant, float]) -> Agreement | None:
    """Compare; None where there is too little to compare."""
    if len(predicted) <= FIRST:
        return None
    measured = {variant: cell.score(variant) for variant in predicted}
    ranking = sorted(predicted, key=predicted.__getitem__)
    best = min(measured, key=measured.__getitem__)
    return Agreement(
        cell.ranks,
        cell.block,
        len(ranking),
        float(kendalltau(list(measured.values()), [predicted[v] for v in measured])[0]),
        best,
        1 + ranking.index(best),
        ranking[0],
        min(measured[variant] for variant in ranking[:FIRST]) / measured[best],
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
            f"{row.loss - 1:+.1%}",
            str(row.place),
            f"{row.ratio:.2f}",
            row.best.label,
            row.first.label,
        )
    console.print(table)
    equal = sum(row.loss <= EQUAL for row in rows)
    console.print(
        f"among the first three: the very best at {sum(row.place <= FIRST for row in rows)} of "
        f"{len(rows)} blocks, one within {EQUAL - 1:.0%} of it at {equal}; "
        f"tau {statistics.mean(row.tau for row in rows):.2f}"
    )
