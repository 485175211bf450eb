"""The bench: the generated file against the MPI library's own MPI_Alltoall, interleaved.

With competitors also against each of the library's algorithms, forced, and against what the
presets choose among our bodies, in the same rounds. What is claimed rests on several launches of
the job, by the one estimator of launches.py.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from search.cluster.job import Job, JobLost
from search.cluster.placement import Placement
from search.decide.decision import Decision
from search.errors import EnvironmentFailure
from search.files import write_whole
from search.measure.scheme import isolated
from search.measure.visits import SETTLE_TIMEOUTS, SKEW_BARRIERS, Pace, usual_pace
from search.results.launches import ratio_of, spread_of
from search.results.samples import Interval, Sample, median_interval, sample_of
from search.results.workload import Limit, Team
from search.sizes import size_text
from search.timeouts import USUAL

TARGETS = ("library", "generated")
LEAST_ROUNDS = 3
"""Of a launch: fewer say nothing of their error."""
MOST_ROUNDS = 400
WARMUPS = 2
WARMUP_SECONDS = 0.05
"""Where a call takes longer, verifying it has warmed it up."""
SHORT = 0.1
"""Seconds at the bandwidth bound of a block beyond which none is added between two tuned ones."""
COLD_CALLS = 3
COLD_SECONDS = 1.1
"""Idle time after which TCP has forgotten its window."""

MOST_RATIO = 1000.0


@dataclass
class Timed:
    """What was timed at a block: for each launch, samples by target, round after round; and after
    COLD_SECONDS of idleness."""

    block: int
    launches: list[dict[str, list[Sample]]] = field(default_factory=list)
    cold: dict[str, list[Sample]] = field(default_factory=dict)

    def samples(self, target: str) -> list[Sample]:
        """Those of all launches."""
        return [sample for launch in self.launches for sample in launch[target]]

    def seconds(self, target: str) -> list[float]:
        """Their times."""
        return [sample.seconds for sample in self.samples(target)]

    def launch_ratios(self, target: str) -> list[list[float]]:
        """Times of a target over the generated file's in the same rounds, launch by launch; of
        those that were timed in the same way, if there are any."""
        found = []
        for launch in self.launches:
            pairs = list(zip(launch[target], launch["generated"]))
            alike = [(a, b) for a, b in pairs if bool(a.late) == bool(b.late)]
            found.append([a.seconds / b.seconds for a, b in alike or pairs])
        return found


@dataclass(frozen=True)
class Row:
    """One block (bytes to each peer) of a team: medians in seconds, ratio = library over
    generated with its interval.

    ``launches`` holds that ratio in each launch, ``competitors`` the ratio for each other that
    was timed, ``cold`` the medians of library and generated file after idleness.
    """

    team: Team
    block: int
    library: Interval
    generated: Interval
    ratio: Interval
    launches: tuple[float, ...]
    limit: float | None
    retransmissions: tuple[int, int]
    variant: str
    competitors: Mapping[str, Interval]
    cold: tuple[float, float] | None = None

    @property
    def best_competitor(self) -> str | None:
        """The fastest of the others, if there were any."""
        return min(self.competitors, key=lambda c: self.competitors[c].median, default=None)


def bench_sizes(sizes: Sequence[int], team: Team, limit: Limit) -> list[int]:
    """The tuned sizes and, where calls are short, one between each two of them."""
    between = [math.isqrt(a * b) for a, b in zip(sizes, sizes[1:])]
    short = [size for size in between if (limit(team.at(size)) or 0.0) <= SHORT]
    return sorted({*sizes, *short})


def chosen_label(decision: Decision, here: Placement, block: int) -> str:
    """The variant for a block that serves a communicator."""
    return decision.table(here).choice(block).label


@dataclass(frozen=True)
class Plan:
    """What a bench times on so many ranks: blocks, each for so many seconds a launch, and beside
    the two targets competitors by name, with the label that each has at a block; ``cold`` adds
    calls after idleness; ``pace`` makes the cluster ready for a block."""

    team: Team
    sizes: Sequence[int]
    seconds: float
    launches: int
    competitors: Mapping[str, Callable[[int], str]] = field(default_factory=dict)
    cold: bool = False
    pace: Pace = usual_pace

    def labels(self, block: int) -> dict[str, str]:
        """What is timed at a block, by name."""
        others = {name: label(block) for name, label in self.competitors.items()}
        return {**dict(zip(TARGETS, TARGETS)), **others}


def run_bench(
    start_job: Callable[[], Job], plan: Plan, limit: Limit, say: Callable[[str], None]
) -> list[Timed]:
    """Time all targets at every block, in as many launches of the job as the plan says."""
    timed = [Timed(block) for block in plan.sizes]
    for launch in range(plan.launches):
        job = start_job()
        try:
            job.choose_team(plan.team)
            skew = job.ask(f"clocks {SKEW_BARRIERS}")["skew"]
            for number, one in enumerate(timed):
                where = f", launch {launch + 1} of {plan.launches}" if plan.launches > 1 else ""
                say(f"{number + 1} of {len(timed)}: {size_text(one.block)}{where}")
                shuffle = random.Random(launch * len(timed) + number).shuffle
                patience = USUAL.of_visit(one.block, limit(plan.team.at(one.block)))
                one.launches.append(_time_block(job, one.block, plan, skew, shuffle, patience))
                if plan.cold and launch == 0:
                    one.cold = _time_cold(job, one.block, patience)
        except JobLost as error:
            raise EnvironmentFailure(f"the bench stopped: {error}") from error
        finally:
            job.close()
    return timed


def _time_block(
    job: Job,
    block: int,
    plan: Plan,
    skew: float,
    shuffle: Callable[[list[str]], None],
    patience: float,
) -> dict[str, list[Sample]]:
    """Rounds of all targets in random order for about as long as the plan says."""
    labels, timeout = plan.labels(block), plan.pace(block)
    samples: dict[str, list[Sample]] = {target: [] for target in labels}
    expected = 0.0
    for target, label in labels.items():
        begin = time.monotonic()
        if job.ask(f"verify {label} {block}", patience).get("verdict") != "ok":
            raise EnvironmentFailure(f"{target}: wrong result at {block} bytes to each peer")
        if time.monotonic() - begin > WARMUP_SECONDS:
            expected = max(expected, time.monotonic() - begin)
            continue
        answer = job.ask(f"time {label} {block} {WARMUPS} 1 barrier", patience)
        expected = max(expected, answer["seconds"][0])
    scheme, calls = isolated(expected, skew)
    begin = time.monotonic()
    for count in range(1, MOST_ROUNDS + 1):
        order = list(labels)
        shuffle(order)
        for target in order:
            request = f"time {labels[target]} {block} {int(calls > 1)} {calls} {scheme}"
            sample = sample_of(_good(job.ask(request, patience), target))
            samples[target].append(sample)
            if sample.timeouts:
                time.sleep(SETTLE_TIMEOUTS * timeout)
        if count >= LEAST_ROUNDS and time.monotonic() - begin > plan.seconds:
            break
    return samples


def _time_cold(job: Job, block: int, patience: float) -> dict[str, list[Sample]]:
    """Single calls after idleness."""
    samples: dict[str, list[Sample]] = {target: [] for target in TARGETS}
    for _ in range(COLD_CALLS):
        for target in TARGETS:
            time.sleep(COLD_SECONDS)
            answer = job.ask(f"time {target} {block} 0 1 barrier", patience)
            samples[target].append(sample_of(_good(answer, target)))
    return samples


def _good(answer: dict[str, Any], target: str) -> dict[str, Any]:
    if "error" in answer:
        raise EnvironmentFailure(f"{target}: {answer['error']}")
    return answer


def make_rows(
    timed: Sequence[Timed], plan: Plan, limit: Limit, variant: Callable[[int], str]
) -> list[Row]:
    """What samples say."""
    others = ["library", *plan.competitors]
    spreads = {o: spread_of(one.launch_ratios(o) for one in timed) for o in others}
    rows = []
    for one in timed:
        library, generated = (median_interval(one.seconds(target)) for target in TARGETS)
        again = [sum(s.retransmissions for s in one.samples(target)) for target in TARGETS]
        cold = [statistics.median(s.seconds for s in one.cold[t]) for t in TARGETS if one.cold]
        ratios = {o: ratio_of(one.launch_ratios(o), spread) for o, spread in spreads.items()}
        rows.append(
            Row(
                plan.team,
                one.block,
                library,
                generated,
                ratios.pop("library"),
                tuple(ratio_of([launch]).median for launch in one.launch_ratios("library")),
                limit(plan.team.at(one.block)),
                (again[0], again[1]),
                variant(one.block),
                ratios,
                (cold[0], cold[1]) if cold else None,
            )
        )
    return rows


def show(console: Console, rows: Sequence[Row], circumstances: str) -> None:
    """The table that people read, and what it comes to."""
    table = Table(title=f"native / generated: {circumstances}", box=box.SIMPLE)
    headings = ["block", "native ms", "generated ms", "ratio", "95 % interval", ""]
    forced = any(row.competitors for row in rows)
    cold = any(row.cold for row in rows)
    headings += [
        "of bound",
        "retransmits",
        *(["cold ms"] if cold else []),
        *(["best other", "ratio"] if forced else []),
        "variant",
    ]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "variant") else "right")
    for row in rows:
        table.add_row(
            size_text(row.block),
            _ms(row.library.median),
            _ms(row.generated.median),
            f"{row.ratio.median:.2f}",
            interval_text(row.ratio.low, row.ratio.high),
            verdict(row.ratio.low, row.ratio.high).replace("equal", ""),
            f"{row.limit / row.generated.median:.0%}" if row.limit else "-",
            f"{row.retransmissions[0]}/{row.retransmissions[1]}",
            *([f"{_ms(row.cold[0])}/{_ms(row.cold[1])}"] if row.cold else []),
            *_best_forced(row),
            row.variant,
        )
    console.print(table)
    if forced:
        least = [min(i.median for i in row.competitors.values()) for row in rows if row.competitors]
        console.print(
            f"against the best of {len(rows[0].competitors)} competitors: "
            f"{geometric_mean(least):.2f} in the geometric mean, {min(least):.2f} at the least"
        )
    console.print(headline_of([as_json(row) for row in rows]))


def verdict(low: float, high: float) -> str:
    """What an interval of native / generated says of the generated file."""
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "equal"


def headline_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows of build/bench.json in one sentence."""
    verdicts = [verdict(*row["ratio_interval"]) for row in rows]
    count, least = Counter(verdicts), min(rows, key=lambda row: float(row["ratio"]))
    launches = len(rows[0]["launches"])
    slower = ", ".join(size_text(r["block"]) for r, v in zip(rows, verdicts) if v == "slower")
    return (
        f"Of {len(rows)} sizes {count['faster']} are significantly faster than native, "
        f"{count['slower']} slower{f' ({slower})' if slower else ''}, {count['equal']} equal: "
        f"{geometric_mean([row['ratio'] for row in rows]):.2f} x in the geometric mean, "
        f"{least['ratio']:.2f} x at worst ({size_text(least['block'])}); "
        f"{launches} launch{'es' * (launches > 1)}."
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Of ratios."""
    return math.exp(statistics.mean(map(math.log, values)))


def interval_text(low: float, high: float) -> str:
    """For people: what is beyond all sense is no number."""
    return f"{low:.2f}-{high:.2f}" if high < MOST_RATIO else f"{low:.2f}-..."


def ratio_text(ratio: float, low: float, high: float) -> str:
    """How many times longer something takes, as people read it."""
    return f"{ratio:.2f} x ({interval_text(low, high)})"


def _best_forced(row: Row) -> list[str]:
    best = row.best_competitor
    return [best.partition(":")[2] or best, f"{row.competitors[best].median:.2f}"] if best else []


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def write_rows(path: Path, rows: Sequence[Row], circumstances: Mapping[str, Any]) -> None:
    """Write build/bench.json: under which circumstances, and medians in seconds,
    ratio = native / generated."""
    content = [as_json(row) for row in rows]
    write_whole(path, json.dumps({**circumstances, "rows": content}, indent=1) + "\n")


def as_json(row: Row) -> dict[str, Any]:
    """A row as build/bench.json has it."""
    return {
        "ranks": row.team.ranks,
        **({"placement": row.team.placement} if row.team.placement else {}),
        "block": row.block,
        "native_s": row.library.median,
        "generated_s": row.generated.median,
        "ratio": row.ratio.median,
        "ratio_interval": [row.ratio.low, row.ratio.high],
        "launches": row.launches,
        "competitors": {
            label: {"ratio": ratio.median, "ratio_interval": [ratio.low, ratio.high]}
            for label, ratio in row.competitors.items()
        },
        "cold_s": row.cold,
        "limit_s": row.limit,
        "variant": row.variant,
        "retransmissions": {
            "native": row.retransmissions[0],
            "generated": row.retransmissions[1],
        },
    }
