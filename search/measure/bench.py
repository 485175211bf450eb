"""The bench: the generated file against the MPI library's own MPI_Alltoall, interleaved.

With competitors also against each of the library's algorithms, forced, in the same rounds.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from search.decision import Decision
from search.errors import EnvironmentFailure
from search.files import write_whole
from search.measure.job import Job, JobLost
from search.measure.runner import SETTLE_SECONDS
from search.measure.samples import Interval, Sample, median_interval, ratio_interval
from search.progress import size_text

TARGETS = ("library", "generated")
LEAST_ROUNDS = 9
MOST_ROUNDS = 400
WARMUPS = 3


@dataclass(frozen=True)
class Row:
    """One block (bytes to each peer): medians in seconds, ratio = library over generated.

    ``competitors`` holds the same ratio for each algorithm that was forced.
    """

    block: int
    library: Interval
    generated: Interval
    ratio: Interval
    limit: float | None
    retransmissions: tuple[int, int]
    variant: str
    competitors: Mapping[str, Interval]

    @property
    def best_competitor(self) -> str | None:
        """The fastest of the forced algorithms, if any was."""
        return min(self.competitors, key=lambda c: self.competitors[c].median, default=None)


def bench_sizes(sizes: Sequence[int]) -> list[int]:
    """The tuned sizes and one between each two of them."""
    between = [math.isqrt(a * b) for a, b in zip(sizes, sizes[1:])]
    return sorted({*sizes, *between})


def chosen_label(decision: Decision, ranks: int, block: int) -> str:
    """The variant for a block in the table that serves so many ranks on hosts of the tree: the
    nearest one measured all of whose rows can, as the emitted file chooses."""
    last = decision.tables[-1]
    fitting = [t for t in decision.tables if t is last or t.serves(ranks)]
    table = min(fitting, key=lambda t: max(t.ranks / ranks, ranks / t.ranks) if t.ranks else 1e9)
    return next(c.variant.label for c in table.cutoffs if c.most is None or block <= c.most)


def bench_block(
    job: Job,
    block: int,
    limit: float | None,
    variant: str,
    seconds: float,
    seed: int,
    competitors: Sequence[str] = (),
) -> Row:
    """Time all targets in rounds of random order for about so many seconds."""
    shuffle = random.Random(seed).shuffle
    targets = (*TARGETS, *competitors)
    samples: dict[str, list[Sample]] = {target: [] for target in targets}
    patience = 30 + 100 * (limit or block * 1e-6)
    try:
        for target in targets:
            if job.ask(f"verify {target} {block}", patience).get("verdict") != "ok":
                raise EnvironmentFailure(f"{target}: wrong result at {block} bytes to each peer")
            job.ask(f"time {target} {block} 0 {WARMUPS}", patience)
        begin = time.monotonic()
        for count in range(1, MOST_ROUNDS + 1):
            order = list(targets)
            shuffle(order)
            for target in order:
                answer = job.ask(f"time {target} {block} 0 1", patience)
                sample = Sample(answer["seconds"][0], answer["retransmissions"], answer["timeouts"])
                samples[target].append(sample)
                if sample.timeouts:
                    time.sleep(SETTLE_SECONDS)
            if count >= LEAST_ROUNDS and time.monotonic() - begin > seconds:
                break
    except JobLost as error:
        raise EnvironmentFailure(f"the bench at {block} bytes stopped: {error}") from error
    times = {target: [s.seconds for s in samples[target]] for target in targets}
    library, generated = (median_interval(times[target]) for target in TARGETS)
    again = tuple(sum(s.retransmissions for s in samples[target]) for target in TARGETS)
    ratios = {target: _ratio(times[target], times["generated"]) for target in targets}
    return Row(
        block,
        library,
        generated,
        ratios["library"],
        limit,
        (again[0], again[1]),
        variant,
        {target: ratios[target] for target in competitors},
    )


def _ratio(times: Sequence[float], generated: Sequence[float]) -> Interval:
    """Median over median, with the interval of the paired ratios."""
    pairs = ratio_interval(times, generated)
    return Interval(
        pairs.low, median_interval(times).median / median_interval(generated).median, pairs.high
    )


def show(console: Console, rows: Sequence[Row], cluster_text: str) -> None:
    """The table that people read."""
    table = Table(title=f"MPI_Alltoall and ATALL_Alltoall: {cluster_text}", box=box.SIMPLE)
    headings = ["block", "native ms", "generated ms", "ratio", "interval", "of limit", "resent n/g"]
    forced = any(row.competitors for row in rows)
    for heading in (*headings, *(["best forced", "ratio"] if forced else []), "variant"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for row in rows:
        share = f"{row.limit / row.generated.median:.0%}" if row.limit else "-"
        table.add_row(
            size_text(row.block),
            _ms(row.library.median),
            _ms(row.generated.median),
            f"{row.ratio.median:.2f}",
            f"{row.ratio.low:.2f}-{row.ratio.high:.2f}",
            share,
            f"{row.retransmissions[0]}/{row.retransmissions[1]}",
            *_best_forced(row),
            row.variant,
        )
    console.print(table)
    if forced:
        least = [min(i.median for i in row.competitors.values()) for row in rows if row.competitors]
        console.print(
            f"against the best of {len(rows[0].competitors)} forced algorithms: "
            f"{math.exp(sum(map(math.log, least)) / len(least)):.2f} in the geometric mean, "
            f"{min(least):.2f} at the least"
        )


def _best_forced(row: Row) -> list[str]:
    best = row.best_competitor
    return [best.partition(":")[2], f"{row.competitors[best].median:.2f}"] if best else []


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write build/bench.json: medians in seconds, ratio = native / generated."""
    content = [
        {
            "block": row.block,
            "native_s": row.library.median,
            "generated_s": row.generated.median,
            "ratio": row.ratio.median,
            "ratio_interval": [row.ratio.low, row.ratio.high],
            "competitors": {
                label: {"ratio": ratio.median, "ratio_interval": [ratio.low, ratio.high]}
                for label, ratio in row.competitors.items()
            },
            "limit_s": row.limit,
            "variant": row.variant,
            "retransmissions": {
                "native": row.retransmissions[0],
                "generated": row.retransmissions[1],
            },
        }
        for row in rows
    ]
    write_whole(path, json.dumps(content, indent=1) + "\n")


def run_bench(
    job: Job,
    sizes: Sequence[int],
    limit: Callable[[int], float | None],
    variant: Callable[[int], str],
    seconds: float,
    say: Callable[[str], None],
    competitors: Sequence[str] = (),
) -> list[Row]:
    """Bench every size in turn; ``competitors`` are labels of forced algorithms."""
    rows = []
    for number, block in enumerate(sizes):
        say(f"{number + 1} of {len(sizes)}: {size_text(block)}")
        rows.append(
            bench_block(job, block, limit(block), variant(block), seconds, number, competitors)
        )
    return rows
