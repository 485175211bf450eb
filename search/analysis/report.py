"""The report stage: one self-contained HTML file of what was measured and chosen, and why.

The headline comes first, then two pictures, then a line for each row of the tables; what only some
want to see is folded.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from search.analysis.bench import geometric_mean, verdict
from search.analysis.pictures import bands, for_screens, ratio_axis
from search.decide.decision import Cutoff, Decision, DecisionTable, Ratio
from search.files import write_whole
from search.measure.probe import Machine
from search.results.cell import Cell
from search.results.journal import Place, Record
from search.results.samples import median_interval
from search.sizes import size_text

MOST_IN_BAR = 4.0
"""Ratios beyond it are at the end of a bar."""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66em; margin: 1.5em auto; padding: 0 1em;
  color: #222 }
h1 { font-size: 1.3em; font-weight: 600 } h2 { font-size: 1.15em; margin: 1.6em 0 .4em }
.headline { font-size: 1.25em; line-height: 1.4 } .quiet { color: #666; font-size: .9em }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .92em }
th, td { padding: .25em .7em; text-align: left; white-space: nowrap }
th { border-bottom: 2px solid #888; font-weight: 600 } td { border-bottom: 1px solid #e4e4e4 }
td.number { text-align: right; font-variant-numeric: tabular-nums }
details { margin: .8em 0; border-top: 1px solid #ddd; padding-top: .6em }
summary { cursor: pointer; font-weight: 600 }
svg { max-width: 100%; height: auto } .bar { vertical-align: middle } .narrow { display: none }
@media (max-width: 640px) { .wide { display: none } .narrow { display: block }
  body { font-size: 15px } th, td { padding: .25em .4em } }
"""
NATIVE, OURS = "#444444", "#c0392b"
Limit = Callable[[int, int], "float | None"]


@dataclass(frozen=True)
class Findings:
    """All that a report shows; ``bench`` is what build/bench.json holds."""

    title: str
    cells: Mapping[Place, Cell]
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


def write_report(path: Path, findings: Findings) -> None:
    """Write the file; pictures are inside."""
    parts = [f"<h1>{escape(findings.title)}</h1>", *_circumstances(findings.decision)]
    for table in _shown(findings.decision):
        points, source = _points(findings, table)
        parts += [f'<p class="headline">{escape(_headline(table, points, source))}</p>']
        if len(points) > 1:
            parts += [_ratios(points, table, source), _shares(points, table)]
        parts += [f"<h2>What was chosen on {_ranks_text(table)}, and why</h2>", _rows(table)]
    others = [t for t in findings.decision.tables if t not in _shown(findings.decision)]
    details = [
        ("Tables for where the hosts are not those of the tree", "".join(map(_rows, others))),
        ("Every variant that was timed", _every_variant(findings)),
        ("The bench, size by size", _bench(findings.bench)),
        ("The network, and null tests", _network(findings.machine)),
        ("Troubles", _troubles(findings.records)),
        ("How long it took", _spent(findings.records)),
    ]
    parts += [
        f"<details><summary>{escape(name)}</summary>{text}</details>"
        for name, text in details
        if text
    ]
    page = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(findings.title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )
    write_whole(path, page)


def _circumstances(decision: Decision) -> list[str]:
    """What a reader must know before the figures."""
    tuned, lines = decision.tuned, []
    if tuned.get("dilation"):
        lines.append(f"The machine carried the emulated cluster at {tuned['dilation']}.")
    if tuned.get("steal"):
        lines.append(f"Others had {tuned['steal']:.0%} of the processors meanwhile.")
    if tuned.get("noise"):
        lines.append(f"Measured on a disturbed cluster, as accepted: {tuned['noise']}.")
    return [f'<p class="quiet">{escape(" ".join(lines))}</p>'] if lines else []


def _shown(decision: Decision) -> list[DecisionTable]:
    """The first table for each number of ranks."""
    found: dict[int, DecisionTable] = {}
    for table in decision.tables:
        found.setdefault(table.ranks, table)
    return list(found.values())


def _ranks_text(table: DecisionTable) -> str:
    return f"{table.ranks} ranks" if table.ranks else "any number of ranks"


def _points(findings: Findings, table: DecisionTable) -> tuple[list[Point], str]:
    """Of the bench, if it ran on so many ranks; else of what was measured while tuning."""
    mine = [row for row in findings.bench if row["ranks"] == table.ranks]
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
    for (ranks, block), cell in sorted(findings.cells.items()):
        native = next((v for v in cell.rounds if v.label == "native"), None)
        choice = table.choice(block)
        if ranks != table.ranks or native is None or choice not in cell.rounds:
            continue
        ratio, limit = cell.ratio(native, choice), findings.limit(ranks, block)
        points.append(
            Point(
                block,
                (ratio.median, ratio.low, ratio.high),
                limit / cell.score(choice) if limit else None,
                limit / cell.score(native) if limit else None,
            )
        )
    return points, "tuning"


def _headline(table: DecisionTable, points: Sequence[Point], source: str) -> str:
    """The figures that matter, in a sentence."""
    if not points:
        return f"Nothing was measured on {_ranks_text(table)}."
    ratios = [point.ratio[0] for point in points]
    count = Counter(verdict(*point.ratio[1:]) for point in points)
    shares = [point.ours for point in points if point.ours and point.block >= 1 << 13]
    bound = f" Blocks of 8 KiB and more reach {min(shares):.0%} to " if shares else ""
    bound += f"{max(shares):.0%} of the bandwidth bound." if shares else ""
    return (
        f"On {_ranks_text(table)} the library's own MPI_Alltoall takes "
        f"{geometric_mean(ratios):.2f} times as long, in the geometric mean of {len(ratios)} sizes "
        f"({source}), {min(ratios):.2f} times at the least: {count['faster']} sizes "
        f"are faster, {count['equal']} equal, {count['slower']} slower for sure.{bound}"
    )


# ---- pictures


def _ratios(points: Sequence[Point], table: DecisionTable, source: str) -> str:
    def draw(axes: Any) -> None:
        blocks = [point.block for point in points]
        bands(axes, [(c.most, c.variant.label) for c in table.cutoffs], blocks)
        middles = [point.ratio[0] for point in points]
        most = 1.3 * max(2.0, *middles)
        low = [middle - max(p.ratio[1], 0.05) for p, middle in zip(points, middles)]
        high = [max(0.0, min(p.ratio[2], most) - m) for p, m in zip(points, middles)]
        axes.errorbar(
            blocks, middles, [[max(0.0, x) for x in low], high], color=OURS, marker="o",
            markersize=4, capsize=2, linewidth=1.6,
        )  # fmt: skip
        ratio_axis(axes, min(0.8, *middles) / 1.1, most)

    return for_screens(draw, f"native / generated ({source})", f"ratios{table.ranks}")


def _shares(points: Sequence[Point], table: DecisionTable) -> str:
    known = [point for point in points if point.ours and point.native]
    if len(known) < 2:
        return ""

    def draw(axes: Any) -> None:
        blocks = [point.block for point in known]
        axes.plot(
            blocks, [100 * (p.ours or 0) for p in known], color=OURS, marker="o", label="generated"
        )
        axes.plot(
            blocks, [100 * (p.native or 0) for p in known], color=NATIVE, marker="o", label="native"
        )
        axes.axhline(100, color="black", linestyle="--", linewidth=1, label="bandwidth bound")
        axes.set_ylim(0, 115)

    return for_screens(draw, "% of the bandwidth bound", f"shares{table.ranks}")


# ---- tables


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table; cells that begin with a digit are numbers."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        kinds = [' class="number"' if cell[:1].isdigit() else "" for cell in row]
        cells = (f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _bar(ratio: Ratio | None) -> str:
    """An interval of ratios as a small picture: the line in the middle is 1."""
    if ratio is None:
        return ""
    middle, low, high, _ = ratio

    def place(value: float) -> float:
        share = math.log(max(value, 1 / MOST_IN_BAR)) / math.log(MOST_IN_BAR)
        return 45 + 43 * max(-1.0, min(1.0, share))

    colour = OURS if low > 1 else NATIVE
    return Markup(
        '<svg class="bar" width="90" height="14" viewBox="0 0 90 14">'
        '<line x1="45" x2="45" y1="0" y2="14" stroke="#bbb"/>'
        f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="7" y2="7" stroke="{colour}" '
        f'stroke-width="3"/><circle cx="{place(middle):.1f}" cy="7" r="4" fill="{colour}"/></svg>'
        f" {middle:.2f}"
    )


def _rows(table: DecisionTable) -> str:
    """A line for each row of a table, and what else there is to say below."""
    headings = ("blocks", "variant", "native takes", "runner-up takes", "of bound")
    lows = [1, *(cutoff.most + 1 for cutoff in table.cutoffs if cutoff.most)]
    lines = [_row(low, cutoff) for low, cutoff in zip(lows, table.cutoffs)]
    remarks = [
        f"<li>{escape(f'{cutoff.variant.label}: {remark}')}</li>"
        for cutoff in table.cutoffs
        for remark in _remarks(cutoff)
    ]
    said = f'<ul class="quiet">{"".join(remarks)}</ul>' if remarks else ""
    return _table(headings, lines) + said


def _row(low: int, cutoff: Cutoff) -> list[str]:
    to = f"to {size_text(cutoff.most)}" if cutoff.most else f"from {size_text(low)}"
    evidence = cutoff.evidence
    if evidence is None:
        return [to, cutoff.variant.label, "", "", ""]
    share = f"{evidence.of_limit:.0%}" if evidence.of_limit else ""
    return [to, cutoff.variant.label, _bar(evidence.native), _bar(evidence.ahead), share]


def _remarks(cutoff: Cutoff) -> list[str]:
    """What else there is to say of a row."""
    evidence = cutoff.evidence
    if evidence is None:
        return [cutoff.said] if cutoff.said else []
    alike = ", not distinguishable" if evidence.runner_up in evidence.undecided else ""
    rival = [f"runner-up {evidence.runner_up}{alike}"] if evidence.runner_up else []
    return [*rival, *evidence.doubts]


def _every_variant(findings: Findings) -> str:
    """Times of all variants, and retransmissions of those that were chosen."""
    parts = []
    for table in _shown(findings.decision):
        cells = [c for (n, _), c in sorted(findings.cells.items()) if n == table.ranks]
        if cells:
            chosen = {cutoff.variant.label for cutoff in table.cutoffs}
            parts.append(f"<p>{_ranks_text(table)}: medians with 95 % intervals.</p>")
            parts += [_times(cells, chosen, findings.limit), _retransmissions(cells, chosen)]
    return "".join(parts)


def _times(cells: Sequence[Cell], chosen: set[str], limit: Limit) -> str:
    labels = sorted(
        {v.label for cell in cells for v in cell.rounds}, key=lambda label: (label in chosen, label)
    )

    def draw(axes: Any) -> None:
        axes.set_yscale("log")
        for label in labels:
            points = [
                (cell.block, median_interval(cell.seconds(variant)))
                for cell in cells
                for variant in cell.rounds
                if variant.label == label
            ]
            medians = [interval.median * 1e3 for _, interval in points]
            errors = [
                [(i.median - i.low) * 1e3 for _, i in points],
                [(i.high - i.median) * 1e3 for _, i in points],
            ]
            if label in chosen or label == "native":
                style: dict[str, Any] = {"linewidth": 1.8, "label": label, "capsize": 2}
                if label == "native":
                    style["color"] = "black"
            else:
                style = {"linewidth": 0.6, "color": "0.75", "elinewidth": 0.4}
            axes.errorbar([block for block, _ in points], medians, errors, **style)
        known = [(cell.block, limit(cell.ranks, cell.block)) for cell in cells]
        bounds = [(block, seconds * 1e3) for block, seconds in known if seconds]
        if bounds:
            axes.plot(*zip(*bounds), "k--", linewidth=1, label="bandwidth bound")

    return for_screens(draw, "ms a call", "times")


def _retransmissions(cells: Sequence[Cell], chosen: set[str]) -> str:
    def draw(axes: Any) -> None:
        axes.set_yscale("symlog", linthresh=1)
        for label in ["native", *sorted(chosen - {"native"})]:
            points = []
            for cell in cells:
                for variant in cell.rounds:
                    if variant.label == label:
                        samples = cell.samples(variant)
                        calls = sum(len(sample.calls) for sample in samples)
                        again = sum(sample.retransmissions for sample in samples)
                        points.append((cell.block, again / calls))
            color = {"color": "black"} if label == "native" else {}
            axes.plot(*zip(*points), marker="o", markersize=3, label=label, **color)

    return for_screens(draw, "retransmitted segments a call, all hosts", "retransmissions")


def _bench(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>Not run yet: <code>make bench</code>.</p>"
    headings = ("ranks", "block", "native ms", "generated ms", "ratio", "of bound", "retransmits")
    return _table(
        (*headings, "variant"),
        [
            (
                str(row["ranks"]),
                size_text(row["block"]),
                f"{row['native_s'] * 1e3:.3g}",
                f"{row['generated_s'] * 1e3:.3g}",
                _bar((row["ratio"], *row["ratio_interval"], row["ratio"])),
                f"{row['limit_s'] / row['generated_s']:.0%}" if row["limit_s"] else "",
                "{native} / {generated}".format(**row["retransmissions"]),
                row["variant"],
            )
            for row in rows
        ],
    )


def _troubles(records: Sequence[Record]) -> str:
    """What was void or excluded."""
    rows = [
        (size_text(r.block), f"{len(r.rounds)} rounds void", r.void)
        for r in records
        if r.void is not None
    ]
    rows += [(size_text(r.block), r.label, r.failure) for r in records if r.failure]
    if not rows:
        return "<p>None: no round was void, no variant failed.</p>"
    return _table(("block", "what", "why"), rows)


def _spent(records: Sequence[Record]) -> str:
    """How long each cell took."""
    spent: dict[Place, list[float]] = {}
    variants: dict[Place, set[str]] = {}
    for record in records:
        if record.sample:
            place = record.ranks, record.block
            spent.setdefault(place, []).append(record.sample.spent)
            variants.setdefault(place, set()).add(record.label)
    rows = [
        (
            str(ranks),
            size_text(block),
            str(len(variants[ranks, block])),
            str(len(seconds)),
            f"{sum(seconds):.1f}",
        )
        for (ranks, block), seconds in sorted(spent.items())
    ]
    whole = sum(sum(seconds) for seconds in spent.values())
    heading = f"<p>{whole:.0f} seconds of measuring.</p>"
    return heading + _table(("ranks", "block", "variants", "visits", "seconds"), rows)


def _network(machine: Machine | None) -> str:
    if machine is None:
        return ""
    rows = [
        (
            "one-way latency",
            f"{machine.latency * 1e6:.0f} us (p99 {machine.latency_p99 * 1e6:.0f})",
        ),
        ("barrier", f"{machine.barrier * 1e6:.0f} us"),
        ("ranks leave a barrier within", f"{machine.skew * 1e6:.0f} us"),
        ("clocks agree within", f"{machine.clock_error * 1e6:.0f} us"),
        ("a message's time jumps behind", ", ".join(map(size_text, machine.thresholds)) or "none"),
    ]
    if machine.null_tests:
        rows.append(("null tests", str(machine.null_tests)))
    return _table(("test", "result"), rows)


def read_bench(path: Path) -> list[dict[str, Any]]:
    """The rows of build/bench.json; none if the bench did not run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    rows = content["rows"] if isinstance(content, dict) else []
    return [row for row in rows if "ranks" in row]  # older ones do not say
