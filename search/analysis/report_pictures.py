"""The pictures of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from search.analysis.findings import Point
from search.analysis.pictures import bands, for_screens, ratio_axis
from search.decide.decision import DecisionTable
from search.results.cell import Cell
from search.results.samples import median_interval
from search.results.workload import Limit

NATIVE, OURS = "#444444", "#c0392b"


def ratios(points: Sequence[Point], table: DecisionTable, source: str) -> str:
    """Native over generated, block by block, above the rows that serve them."""

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


def shares(points: Sequence[Point], table: DecisionTable) -> str:
    """How much of the bandwidth bound both reach; nothing where it is not known."""

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


def times(cells: Sequence[Cell], chosen: set[str], limit: Limit) -> str:
    """Medians of all variants with intervals; those that were chosen stand out."""

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
        known = [(cell.block, limit(cell.workload)) for cell in cells]
        bounds = [(block, seconds * 1e3) for block, seconds in known if seconds]
        if bounds:
            axes.plot(*zip(*bounds), "k--", linewidth=1, label="bandwidth bound")

    return for_screens(draw, "ms a call", "times")


def retransmissions(cells: Sequence[Cell], chosen: set[str]) -> str:
    """Segments sent again by those that were chosen, and the library."""

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
