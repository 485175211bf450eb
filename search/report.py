"""The report stage: one self-contained HTML file of what was measured and chosen, and why."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display
from matplotlib import pyplot

from search.decision import Decision, Evidence, ratio_text
from search.files import write_whole
from search.measure.journal import Place, Record
from search.measure.probe import Machine
from search.measure.samples import median_interval
from search.progress import size_text
from search.strategy.cell import Cell

WIDTH, HEIGHT = 9.0, 4.8
"""Inches of a picture."""
STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse } th, td { padding: .25em .8em; text-align: left }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd }
td.number { text-align: right } code { background: #f3f3f3; padding: 0 .2em }
svg { max-width: 100%; height: auto } .quiet { color: #666 }
"""


@dataclass(frozen=True)
class Findings:
    """All that a report shows; ``bench`` is what build/bench.json holds."""

    title: str
    cells: Mapping[Place, Cell]
    records: Sequence[Record]
    decision: Decision
    machine: Machine | None
    bench: Sequence[Mapping[str, Any]]
    limit: Callable[[int, int], float | None]


def write_report(path: Path, findings: Findings) -> None:
    """Write the file; pictures are inside."""
    counts = sorted({ranks for ranks, _ in findings.cells}, reverse=True)
    parts = [f"<h1>{escape(findings.title)}</h1>", _chosen(findings.decision)]
    for ranks in counts:
        cells = [c for (n, _), c in sorted(findings.cells.items()) if n == ranks]
        chosen = _chosen_labels(findings.decision, ranks)
        parts += [
            f"<h2>What was measured on {ranks} ranks</h2>",
            "<p>Medians with 95 % intervals; each line is a variant, those that were chosen in "
            "colour. Dashed: the physical limit.</p>",
            _times(cells, chosen, findings.limit),
            "<h3>TCP retransmissions a call</h3>",
            _retransmissions(cells, chosen),
        ]
    parts += [_bench(findings.bench), _troubles(findings.records), _parts(findings.records)]
    parts.append(_null_tests(findings.machine))
    text = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(findings.title)}</title><style>{STYLE}</style></head><body>",
            *parts,
            "</body></html>\n",
        ]
    )
    write_whole(path, text)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; cells that begin with a digit are numbers."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        kinds = [' class="number"' if cell[:1].isdigit() else "" for cell in row]
        cells = (f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _chosen(decision: Decision) -> str:
    parts = ["<h2>What was chosen, and why</h2>"]
    if decision.tuned.get("noise"):
        parts.append(f"<p>Measured on a disturbed cluster: {escape(decision.tuned['noise'])}.</p>")
    headings = (
        "blocks up to",
        "variant",
        "measured at",
        "native",
        "runner-up",
        "ratio",
        "calls",
        "resent",
        "of limit",
        "remarks",
    )
    for number, table in enumerate(decision.tables):
        last = number == len(decision.tables) - 1
        parts.append(f"<h3>{table.ranks} ranks{', or any other number' if last else ''}</h3>")
        parts.append(
            _table(
                headings, [_row(c.most, c.variant.label, c.evidence, c.said) for c in table.cutoffs]
            )
        )
    parts.append(
        '<p class="quiet">native, ratio: the library\'s own and the runner-up over the chosen one, '
        "median and interval of calls timed together; with time-outs: on average.</p>"
    )
    return "".join(parts)


def _row(most: int | None, label: str, evidence: Evidence | None, said: str) -> list[str]:
    first = ["any" if most is None else size_text(most), label]
    if evidence is None:
        return [*first, "", "", "", "", "", "", "", said]
    remarks = [*evidence.doubts]
    if evidence.undecided:
        remarks.append(f"not told apart from {', '.join(evidence.undecided)}")
    return [
        *first,
        size_text(evidence.block),
        ratio_text(evidence.native) if evidence.native else "",
        evidence.runner_up or "",
        ratio_text(evidence.ahead) if evidence.ahead else "",
        str(evidence.calls),
        str(evidence.retransmissions),
        f"{evidence.of_limit:.0%}" if evidence.of_limit else "",
        "; ".join(remarks),
    ]


def _chosen_labels(decision: Decision, ranks: int) -> list[str]:
    """The variants of the tables for so many ranks, in their order, once each."""
    rows = [c.variant.label for t in decision.tables if t.ranks == ranks for c in t.cutoffs]
    return list(dict.fromkeys(rows))


def _picture(draw: Callable[[Any], None], xlabel: str, ylabel: str, salt: str) -> str:
    """An SVG as part of a page: what ``draw`` puts on axes with logarithmic scales."""
    settings: Any = {"svg.hashsalt": salt, "svg.fonttype": "none", "font.size": 9}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.3)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


BLOCK = "block (bytes to each peer)"


def _times(
    cells: Sequence[Cell], chosen: Sequence[str], limit: Callable[[int, int], float | None]
) -> str:
    labels = sorted(
        {v.label for cell in cells for v in cell.rounds}, key=lambda label: (label in chosen, label)
    )

    def draw(axes: Any) -> None:
        for label in labels:
            points = [
                (cell.block, median_interval(cell.seconds(variant)))
                for cell in cells
                for variant in cell.rounds
                if variant.label == label
            ]
            blocks = [block for block, _ in points]
            medians = [interval.median * 1e3 for _, interval in points]
            errors = [
                [(i.median - i.low) * 1e3 for _, i in points],
                [(i.high - i.median) * 1e3 for _, i in points],
            ]
            if label in (*chosen, "native"):
                style: dict[str, Any] = {"linewidth": 1.8, "label": label, "capsize": 2}
                if label == "native":
                    style["color"] = "black"
            else:
                style = {"linewidth": 0.6, "color": "0.75", "elinewidth": 0.4}
            axes.errorbar(blocks, medians, errors, **style)
        known = [(cell.block, limit(cell.ranks, cell.block)) for cell in cells]
        bounds = [(block, seconds * 1e3) for block, seconds in known if seconds]
        if bounds:
            axes.plot(*zip(*bounds), "k--", linewidth=1, label="physical limit")
        axes.legend(fontsize=8)

    return _picture(draw, BLOCK, "ms a call", "times")


def _retransmissions(cells: Sequence[Cell], chosen: Sequence[str]) -> str:
    def draw(axes: Any) -> None:
        axes.set_yscale("symlog", linthresh=1)
        for label in dict.fromkeys(["native", *chosen]):
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
        axes.legend(fontsize=8)

    return _picture(draw, BLOCK, "segments sent again a call, all hosts", "retransmissions")


def _bench(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<h2>Generated against native</h2><p>Not measured yet: <code>make bench</code>.</p>"

    def draw(axes: Any) -> None:
        for ranks in counts:
            mine = [row for row in rows if row["ranks"] == ranks]
            ratios = [row["ratio"] for row in mine]
            low = [max(0.0, row["ratio"] - row["ratio_interval"][0]) for row in mine]
            high = [max(0.0, row["ratio_interval"][1] - row["ratio"]) for row in mine]
            axes.errorbar(
                [row["block"] for row in mine],
                ratios,
                [low, high],
                marker="o",
                markersize=3,
                capsize=2,
                label=f"{ranks} ranks",
            )
        axes.axhline(1.0, color="black", linewidth=0.8)
        if len(counts) > 1:
            axes.legend()

    counts = sorted({row["ranks"] for row in rows})

    table = _table(
        (
            "ranks",
            "block",
            "native ms",
            "generated ms",
            "ratio",
            "interval",
            "of limit",
            "resent",
            "variant",
        ),
        [
            (
                str(row["ranks"]),
                size_text(row["block"]),
                f"{row['native_s'] * 1e3:.3g}",
                f"{row['generated_s'] * 1e3:.3g}",
                f"{row['ratio']:.2f}",
                "{:.2f} to {:.2f}".format(*row["ratio_interval"]),
                f"{row['limit_s'] / row['generated_s']:.0%}" if row["limit_s"] else "",
                "{native} / {generated}".format(**row["retransmissions"]),
                row["variant"],
            )
            for row in rows
        ],
    )
    picture = _picture(draw, BLOCK, "native / generated", "bench")
    return f"<h2>Generated against native</h2>{picture}{table}"


def _troubles(records: Sequence[Record]) -> str:
    """What was void or set aside."""
    rows = [
        (size_text(r.block), f"{len(r.rounds)} rounds void", r.void)
        for r in records
        if r.void is not None
    ]
    rows += [(size_text(r.block), r.label, r.failure) for r in records if r.failure]
    if not rows:
        return "<h2>Troubles</h2><p>None: no round was void, no variant failed.</p>"
    return "<h2>Troubles</h2>" + _table(("block", "what", "why"), rows)


def _parts(records: Sequence[Record]) -> str:
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
    heading = f"<h2>How long it took</h2><p>{whole:.0f} seconds of measuring.</p>"
    return heading + _table(("ranks", "block", "variants", "visits", "seconds"), rows)


def _null_tests(machine: Machine | None) -> str:
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
    return "<h2>The network, and null tests</h2>" + _table(("test", "result"), rows)


def read_bench(path: Path) -> list[dict[str, Any]]:
    """The rows of build/bench.json; none if the bench did not run."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    rows = content["rows"] if isinstance(content, dict) else []
    return [row for row in rows if "ranks" in row]  # older ones do not say
