"""Broadcasts, by which models and descents are judged as the paper judged them.

Segments from the size of a double to the whole message, along four trees (probes/broadcast.h): all
are timed, predicted, and searched by every strategy. Vadhiyar, Fagg and Dongarra, tables 2 and 3.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from search.catalogue.algorithm import Algorithm, Body, Variant
from search.catalogue.parameter import Enumerated, Number
from search.cluster.job import Job, JobLost
from search.errors import EnvironmentFailure
from search.model.magpie import shape
from search.results.cell import Cell
from search.results.journal import Journal, Record
from search.results.samples import sample_of
from search.results.workload import Workload
from search.sizes import size_text
from search.strategy.descent import BEYOND
from search.strategy.request import EFFORTS, Expectation, Task

TREES = ("flat", "chain", "binary", "binomial")
SIZES = (1 << 10, 128 << 10, 256 << 10)
"""Bytes of messages: of the paper's tables 2 and 3."""
SMALLEST = 8
"""Bytes of a double."""
ROUNDS = 6
CALLS, MOST_CALLS, MESSAGES, BYTES = 3, 20, 64, 512 << 10
"""Calls of a visit: as many as send so many segments, or bytes, to each child."""
PATIENCE = 120.0
PAIR_BYTES, PAIR_CALLS = 1 << 16, 10
SATURATED = 1.25
"""So many times longer all pairs at once take than one where the network saturates."""

RULES = replace(EFFORTS["normal"], budget=15.0)
"""Here a cell is all there is to search, and whole messages are a poor beginning."""

BROADCAST = Algorithm(
    "broadcast",
    "a broadcast in segments",
    "Vadhiyar, Fagg and Dongarra, table 1",
    Path("probes/broadcast.h"),
    "",
    enumerated=(Enumerated("tree", TREES, "whom a rank passes segments on to"),),
    numbers=(Number("segment", 0, None, (), "bytes; 0: the whole message", {}, optional=True),),
)
LIBRARY = Variant(Body(Algorithm("native", "MPI_Bcast", "", Path(), ""), ()))


def variants(size: int) -> list[Variant]:
    """The library's own, and every tree with the whole message and each power of two below it."""
    segments = [0] + [1 << power for power in range(3, 31) if SMALLEST <= 1 << power < size]
    bodies = BROADCAST.bodies()
    return [LIBRARY, *(Variant(body, (("segment", s),)) for body in bodies for s in segments)]


def of_label(label: str) -> Variant:
    """The variant of a label that ``variants`` has."""
    return next(variant for variant in variants(1 << 30) if variant.label == label)


def as_task(task: Task, size: int, seconds: Callable[[str, int, int], float]) -> Task:
    """What is searched of one size: with steps between segments, and what a model says."""
    known = set(task.variants)

    def expects(variant: Variant, block: int) -> Expectation | None:
        if variant == LIBRARY:
            return None
        tree, segment = request_of(variant, block)
        expected = seconds(tree, block, segment)
        return Expectation(expected, expected, False)

    return replace(
        task,
        rules=RULES,
        near=lambda variant: [v for v in near(variant, size) if v in known],
        expects=cache(expects),
    )


def near(variant: Variant, size: int) -> list[Variant]:
    """Segments half and twice as large, the whole message being the largest; and other trees."""
    if variant == LIBRARY:
        return []
    segment = request_of(variant, size)[1]
    sizes = [0 if other == size else other for other in (segment // 2, 2 * segment)]
    beside = [Variant(variant.body, (("segment", s),)) for s in sizes]
    return [*beside, *(Variant(body, variant.values) for body in variant.body.siblings())]


def request_of(variant: Variant, size: int) -> tuple[str, int]:
    """The tree and the bytes of a segment, as the jobs take them."""
    tree = dict(variant.body.binding).get("tree", "library")
    return tree, dict(variant.values).get("segment", 0) or size


def record(
    job: Job, journal: Journal, ranks: int, size: int, say: Callable[[str], None]
) -> list[Record]:
    """Time every variant in ROUNDS rounds, each in another order; those in the journal are kept."""
    everything = variants(size)
    shuffle = random.Random(size)
    for number in range(ROUNDS):
        known = {r.label for r in journal.records if (r.workload.block, r.round) == (size, number)}
        order = [variant for variant in everything if variant.label not in known]
        shuffle.shuffle(order)
        for variant in order:
            tree, segment = request_of(variant, size)
            begin = time.monotonic()
            try:
                answer = ask_for(job, tree, size, segment)
            except JobLost as error:
                raise EnvironmentFailure(f"{variant.label}: {error}") from error
            sample = sample_of(answer, time.monotonic() - begin)
            journal.append(Record(Workload(ranks, size), variant.label, number, sample))
        say(f"{size_text(size)}: round {number + 1} of {ROUNDS}")
    return [record for record in journal.records if record.workload.block == size]


def ask_for(job: Job, tree: str, size: int, segment: int) -> Mapping[str, Any]:
    """Time a broadcast: the more calls the fewer messages and bytes it has. EnvironmentFailure if
    it is wrong."""
    calls = min(MOST_CALLS, max(CALLS, min(MESSAGES * segment, BYTES) // size))
    answer = job.ask(f"broadcast {tree} {size} {segment} 1 {calls}", PATIENCE)
    if "error" in answer:
        raise EnvironmentFailure(f"broadcast along {tree}: {answer['error']}")
    return answer


@dataclass(frozen=True)
class Pipeline:
    """The pipeline test of one tree (figure 5): the segment, in bytes, that is best on a chain as
    long as its longest path, the seconds it took to find it, and how many times slower than the
    tree's best segment it was measured in the tree."""

    tree: str
    segment: int
    seconds: float
    loss: float


def is_saturated(job: Job, ranks: int) -> bool:
    """Whether pairs that exchange at once hold each other up: of a network without its full
    cross-section a pipeline tells nothing."""

    def seconds(request: str) -> float:
        asked = f"{request} {PAIR_BYTES} {PAIR_CALLS}"
        return statistics.median(
            float(job.ask(asked, PATIENCE)["seconds"][0]) for _ in range(CALLS)
        )

    return seconds("pairs") > SATURATED * seconds(f"exchange 0 {ranks // 2}")


def pipelines(job: Job, cell: Cell) -> list[Pipeline]:
    """The pipeline test of every tree: few ranks, and of segments from the whole message down only
    so many as are predicted to be competitive."""
    found = []
    for tree in TREES:
        mine = seconds_of(cell, tree)
        begin = time.monotonic()
        job.choose_ranks(shape(tree, cell.ranks)[0] + 1, PATIENCE)
        times: dict[int, float] = {}
        for segment in sorted(mine, reverse=True):
            times[segment] = statistics.median(
                ask_for(job, "chain", cell.block, segment)["seconds"]
            )
            best = min(times, key=times.__getitem__)
            if list(times).index(segment) - list(times).index(best) >= BEYOND:
                break
        found.append(
            Pipeline(tree, best, time.monotonic() - begin, mine[best] / min(mine.values()))
        )
    job.choose_ranks(cell.ranks, PATIENCE)
    return found


def seconds_of(cell: Cell, tree: str) -> dict[int, float]:
    """Median times of a tree's segments in bytes: as the paper, by time alone."""
    known = {
        request_of(variant, cell.block): statistics.median(cell.seconds(variant))
        for variant in cell.variants
    }
    return {segment: time for (name, segment), time in known.items() if name == tree}


@dataclass(frozen=True)
class Best:
    """One tree: the best segment measured and predicted by each model, in bytes, and how many times
    slower than the best the predicted ones were measured."""

    tree: str
    measured: int
    predicted: Mapping[str, int]
    loss: Mapping[str, float]


def compare_models(
    cell: Cell, models: Mapping[str, Callable[[str, int, int], float]]
) -> list[Best]:
    """Table 3: each of the ``models`` gives seconds of a tree, a size and a segment in bytes."""
    found = []
    for tree in TREES:
        mine = seconds_of(cell, tree)
        best = min(mine, key=mine.__getitem__)
        taken = {
            name: min(mine, key=lambda segment: predict(tree, cell.block, segment))
            for name, predict in models.items()
        }
        losses = {name: mine[segment] / mine[best] for name, segment in taken.items()}
        found.append(Best(tree, best, taken, losses))
    return found


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
