"""The report stage: one self-contained HTML file of what was measured and chosen, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from search.analysis.findings import (
    Findings,
    circumstances,
    headline,
    points_of,
    shown,
)
from search.analysis.report_pictures import NATIVE, OURS, ratios, retransmissions, shares, times
from search.decide.decision import Cutoff, DecisionTable, Ratio
from search.files import write_whole
from search.measure.probe import Machine
from search.results.record import Record
from search.results.workload import Workload
from search.sizes import size_text

MOST_IN_BAR = 4.0
"""Ratios beyond it are at the end of a bar."""
Entry = Union[str, Mapping[str, str]]
"""Of a table: a text, or a bar."""


@dataclass(frozen=True)
class Part:
    """Something to show: a text, pictures, a table with remarks below it, or several of these."""

    text: str = ""
    pictures: Markup = Markup()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[Entry]] = ()
    remarks: Sequence[str] = ()


def write_report(path: Path, findings: Findings) -> None:
    """Write the file; pictures are inside."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    page = environment.get_template("report.html.j2")
    write_whole(
        path,
        page.render(
            title=findings.title,
            circumstances=circumstances(findings.decision),
            sections=[_section(findings, table) for table in shown(findings.decision)],
            details=[{"name": name, "parts": parts} for name, parts in _details(findings)],
        ),
    )


def _section(findings: Findings, table: DecisionTable) -> dict[str, Any]:
    points, source = points_of(findings, table)
    pictures = [ratios(points, table, source), shares(points, table)] if len(points) > 1 else []
    return {
        "headline": headline(table, points, source),
        "pictures": Markup("".join(pictures)),
        "ranks": table.title,
        "rows": _rows(table),
    }


def _details(findings: Findings) -> Iterable[tuple[str, list[Part]]]:
    """What only some want to see."""
    seen = shown(findings.decision)
    others = [_rows(table) for table in findings.decision.tables if table not in seen]
    yield "Tables for where the hosts are not those of the tree", others
    yield "Every variant that was timed", _every_variant(findings)
    yield "The bench, size by size", [_bench(findings.bench)]
    yield "The network, and null tests", _network(findings.machine)
    yield "Troubles", [_troubles(findings.records)]
    yield "How long it took", [_spent(findings.records)]


def _bar(ratio: Ratio | None) -> Entry:
    """An interval of ratios as a small picture."""
    if ratio is None:
        return ""
    middle, low, high, _ = ratio

    def place(value: float) -> str:
        share = math.log(max(value, 1 / MOST_IN_BAR)) / math.log(MOST_IN_BAR)
        return f"{45 + 43 * max(-1.0, min(1.0, share)):.1f}"

    colour = OURS if low > 1 else NATIVE
    places = {"low": place(low), "middle": place(middle), "high": place(high)}
    return {**places, "colour": colour, "text": f"{middle:.2f}"}


def _rows(table: DecisionTable) -> Part:
    """A line for each row of a table, and what else there is to say below."""
    lows = [1, *(cutoff.most + 1 for cutoff in table.cutoffs if cutoff.most)]
    return Part(
        headings=("blocks", "variant", "native takes", "runner-up takes", "of bound"),
        rows=[_row(low, cutoff) for low, cutoff in zip(lows, table.cutoffs)],
        remarks=[
            f"{cutoff.variant.label}: {remark}"
            for cutoff in table.cutoffs
            for remark in _remarks(cutoff)
        ],
    )


def _row(low: int, cutoff: Cutoff) -> list[Entry]:
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


def _every_variant(findings: Findings) -> list[Part]:
    """Times of all variants, and retransmissions of those that were chosen."""
    parts = []
    for table in shown(findings.decision):
        cells = [c for _, c in sorted(findings.cells.items()) if c.workload.team == table.team]
        if cells:
            chosen = {cutoff.variant.label for cutoff in table.cutoffs}
            text = f"{table.title}: medians with 95 % intervals."
            pictures = times(cells, chosen, findings.limit) + retransmissions(cells, chosen)
            parts.append(Part(text, Markup(pictures)))
    return parts


def _bench(rows: Sequence[Mapping[str, Any]]) -> Part:
    if not rows:
        return Part(Markup("Not run yet: <code>make bench</code>."))
    headings = ("ranks", "block", "native ms", "generated ms", "ratio", "of bound", "retransmits")
    return Part(
        headings=(*headings, "variant"),
        rows=[
            (
                f"{row['ranks']} {row.get('placement', '')}".strip(),
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


def _troubles(records: Sequence[Record]) -> Part:
    """What was void or excluded."""
    rows = [
        (size_text(r.workload.block), f"{len(r.rounds)} rounds void", r.void)
        for r in records
        if r.void is not None
    ]
    rows += [(size_text(r.workload.block), r.label, r.failure) for r in records if r.failure]
    if not rows:
        return Part("None: no round was void, no variant failed.")
    return Part(headings=("block", "what", "why"), rows=rows)


def _spent(records: Sequence[Record]) -> Part:
    """How long each cell took."""
    spent: dict[Workload, list[float]] = {}
    variants: dict[Workload, set[str]] = {}
    for record in records:
        if record.sample:
            spent.setdefault(record.workload, []).append(record.sample.spent)
            variants.setdefault(record.workload, set()).add(record.label)
    rows = [
        (
            str(workload.ranks),
            size_text(workload.block),
            str(len(variants[workload])),
            str(len(seconds)),
            f"{sum(seconds):.1f}",
        )
        for workload, seconds in sorted(spent.items())
    ]
    whole = sum(sum(seconds) for seconds in spent.values())
    headings = ("ranks", "block", "variants", "visits", "seconds")
    return Part(f"{whole:.0f} seconds of measuring.", headings=headings, rows=rows)


def _network(machine: Machine | None) -> list[Part]:
    if machine is None:
        return []
    latency, tail = machine.latency * 1e6, machine.latency_p99 * 1e6
    rows = [
        ("one-way latency", f"{latency:.0f} us (p99 {tail:.0f})"),
        ("barrier", f"{machine.barrier * 1e6:.0f} us"),
        ("exit skew of a barrier", f"{machine.skew * 1e6:.0f} us"),
        ("clocks agree within", f"{machine.clock_error * 1e6:.0f} us"),
        ("protocol switches after", ", ".join(map(size_text, machine.thresholds)) or "none"),
    ]
    if machine.null_tests:
        rows.append(("null tests", str(machine.null_tests)))
    return [Part(headings=("test", "result"), rows=rows)]
