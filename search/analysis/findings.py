"""What a report shows, and its figures that matter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.analysis.bench import geometric_mean, verdict
from search.decide.decision import Decision, DecisionTable, Origin
from search.measure.probe import Machine
from search.results.cell import Cell
from search.results.record import Record
from search.results.workload import Limit, Team, Workload


@dataclass(frozen=True)
class Findings:
    """All that a report shows; ``bench`` is what build/bench.json holds."""

    title: str
    cells: Mapping[Workload, Cell]
    records: Sequence[Record]
    decision: Decision
    machine: Machine | None
    bench: Sequence[Mapping[str, Any]]
    limit: Limit


@dataclass(frozen=True)
class Point:
    """What is known of a block: native over the choice, with its interval, and the share of the
    bandwidth bound that each reaches."""

    block: int
    ratio: tuple[float, float, float]
    ours: float | None
    native: float | None


def circumstances(decision: Decision) -> str:
    """What a reader must know before the figures."""
    tuned, lines = decision.tuned or Origin(), []
    if tuned.dilation:
        lines.append(f"The machine carried the emulated cluster at {tuned.dilation}.")
    if tuned.steal:
        lines.append(f"Others had {tuned.steal:.0%} of the processors meanwhile.")
    if tuned.noise:
        lines.append(f"Measured on a disturbed cluster, as accepted: {tuned.noise}.")
    return " ".join(lines)


def shown(decision: Decision) -> list[DecisionTable]:
    """The first table of each that was measured; of an untuned file all."""
    found: dict[Team, DecisionTable] = {}
    for table in decision.tables:
        if table.ranks or not decision.tuned:
            found.setdefault(table.team, table)
    return list(found.values())


def team_of(row: Mapping[str, Any]) -> Team:
    """Whose row of build/bench.json it is."""
    return Team(row["ranks"], row.get("placement", ""))


def points_of(findings: Findings, table: DecisionTable) -> tuple[list[Point], str]:
    """Of the bench, if it ran on the same ranks; else of what was measured while tuning."""
    mine = [row for row in findings.bench if team_of(row) == table.team]
    if mine:
        return [
            Point(
                row["block"],
                (row["ratio"], *row["ratio_interval"]),
                row["limit_s"] / row["generated_s"] if row["limit_s"] else None,
                row["limit_s"] / row["native_s"] if row["limit_s"] else None,
            )
            for row in mine
        ], "bench"
    points = []
    for _, cell in sorted(findings.cells.items()):
        native = next((v for v in cell.rounds if v.body.algorithm.is_native), None)
        choice = table.choice(cell.block)
        if cell.workload.team != table.team or native is None or choice not in cell.rounds:
            continue
        ratio, limit = cell.ratio(native, choice), findings.limit(cell.workload)
        points.append(
            Point(
                cell.block,
                (ratio.median, ratio.low, ratio.high),
                limit / cell.score(choice) if limit else None,
                limit / cell.score(native) if limit else None,
            )
        )
    return points, "tuning"


def headline(table: DecisionTable, points: Sequence[Point], source: str) -> str:
    """The figures that matter, in a sentence."""
    if not points:
        return f"Nothing was measured on {table.title}."
    ratios = [point.ratio[0] for point in points]
    count = Counter(verdict(*point.ratio[1:]) for point in points)
    shares = [point.ours for point in points if point.ours and point.block >= 1 << 13]
    bound = f" Blocks of 8 KiB and more reach {min(shares):.0%} to " if shares else ""
    bound += f"{max(shares):.0%} of the bandwidth bound." if shares else ""
    return (
        f"On {table.title} the library's own MPI_Alltoall takes "
        f"{geometric_mean(ratios):.2f} times as long, in the geometric mean of {len(ratios)} sizes "
        f"({source}), {min(ratios):.2f} times at worst: {count['faster']} sizes "
        f"are significantly faster, {count['slower']} slower, {count['equal']} equal.{bound}"
    )


def read_bench(path: Path) -> list[dict[str, Any]]:
    """The rows of build/bench.json; none if the bench did not run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    rows = content["rows"] if isinstance(content, dict) else []
    return [row for row in rows if "ranks" in row]  # older ones do not say
