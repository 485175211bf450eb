"""Segments of a message that goes down a tree: which are best, and which models and a short
experiment say they are.

Of algorithms with a ``shape`` and a ``segment`` in bytes. Vadhiyar, Fagg and Dongarra, table 3 and
figure 5.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from search.catalogue.algorithm import Variant
from search.cluster.job import Job
from search.errors import EnvironmentFailure
from search.model.magpie import shape
from search.results.cell import Cell
from search.results.workload import Team
from search.sizes import size_text
from search.strategy.descent import BEYOND

CALLS, MOST_CALLS, MESSAGES, BYTES = 3, 20, 64, 512 << 10
"""Calls of a visit: as many as send so many segments, or bytes, to each child."""
PAIR_BYTES, PAIR_CALLS = 1 << 16, 10
SATURATED = 1.25
"""So many times longer all pairs at once take than one where the network saturates."""
PIPELINE = "chain"
"""The shape in which every rank passes segments on to one."""

Model = Callable[[str, int, Variant], float]
"""Seconds of a shape, a segment in bytes, and the variant that they make."""
Trees = Mapping[str, Mapping[int, Variant]]
"""Variants by shape and segment in bytes."""


def trees_of(cell: Cell) -> Trees:
    """Those of a cell that have a shape and a segment; the whole message is one of its block."""
    found: dict[str, dict[int, Variant]] = {}
    for variant in cell.variants:
        tree = dict(variant.body.binding).get("shape")
        segment = dict(variant.values).get("segment")
        if tree and segment:
            found.setdefault(tree, {})[min(segment, cell.block)] = variant
    return found


@dataclass(frozen=True)
class Best:
    """One tree: the best segment measured and predicted by each model, in bytes, and how many times
    slower than the best the predicted ones were measured."""

    tree: str
    measured: int
    predicted: Mapping[str, int]
    loss: Mapping[str, float]


def compare_models(cell: Cell, models: Mapping[str, Model]) -> list[Best]:
    """Table 3: what each of the ``models`` says; as the paper, by median times alone."""
    found = []
    for tree, variants in trees_of(cell).items():
        measured = medians(cell, variants)
        best = min(measured, key=measured.__getitem__)
        taken = {
            name: min(variants, key=lambda segment: predict(tree, segment, variants[segment]))
            for name, predict in models.items()
        }
        losses = {name: measured[segment] / measured[best] for name, segment in taken.items()}
        found.append(Best(tree, best, taken, losses))
    return found


def medians(cell: Cell, variants: Mapping[int, Variant]) -> dict[int, float]:
    """Median times by segment."""
    return {segment: statistics.median(cell.seconds(v)) for segment, v in variants.items()}


@dataclass(frozen=True)
class Pipeline:
    """The pipeline test of one tree (figure 5): the segment, in bytes, that is best on a chain as
    long as its longest path, the seconds it took to find it, and how many times slower than the
    tree's best segment it was measured in the tree."""

    tree: str
    segment: int
    seconds: float
    loss: float


def pipelines(job: Job, cell: Cell) -> list[Pipeline]:
    """The pipeline test of every tree: few ranks, and of segments from the whole message down only
    so many as are predicted to be competitive."""
    trees, found = trees_of(cell), []
    chain = trees.get(PIPELINE, {})
    for tree, variants in trees.items() if chain else ():
        measured = medians(cell, variants)
        begin = time.monotonic()
        job.choose_team(Team(shape(tree, cell.ranks)[0] + 1))
        times: dict[int, float] = {}
        for segment in sorted(variants, reverse=True):
            times[segment] = _time(job, chain[segment], cell.block, segment)
            best = min(times, key=times.__getitem__)
            if list(times).index(segment) - list(times).index(best) >= BEYOND:
                break
        found.append(
            Pipeline(tree, best, time.monotonic() - begin, measured[best] / min(measured.values()))
        )
    job.choose_team(cell.workload.team)
    return found


def _time(job: Job, variant: Variant, block: int, segment: int) -> float:
    """Seconds of a call: the more calls the fewer messages and bytes it has. EnvironmentFailure if
    it fails."""
    calls = min(MOST_CALLS, max(CALLS, min(MESSAGES * segment, BYTES) // block))
    answer = job.ask(f"time {variant.label} {block} 1 {calls} barrier")
    if "error" in answer:
        raise EnvironmentFailure(f"{variant.label}: {answer['error']}")
    return float(statistics.median(answer["seconds"]))


def is_saturated(job: Job, ranks: int) -> bool:
    """Whether pairs that exchange at once hold each other up: of a network without its full
    cross-section a pipeline tells nothing."""

    def seconds(request: str) -> float:
        asked = f"{request} {PAIR_BYTES} {PAIR_CALLS}"
        return statistics.median(float(job.ask(asked)["seconds"][0]) for _ in range(CALLS))

    return seconds("pairs") > SATURATED * seconds(f"exchange 0 {ranks // 2}")


def show(console: Console, title: str, rows: Sequence[Best]) -> None:
    """Table 3 for people."""
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    table.add_column("tree")
    table.add_column("best segment", justify="right")
    for name in rows[0].predicted:
        table.add_column(name, justify="right")
        table.add_column("loss", justify="right")
    for row in rows:
        cells = []
        for name, segment in row.predicted.items():
            cells += [size_text(segment), f"{row.loss[name] - 1:.1%}"]
        table.add_row(row.tree, size_text(row.measured), *cells)
    console.print(table)
