"""Pictures over the block, as SVG: what the report and doc/results.md draw."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter

from search.sizes import size_text

WIDE, NARROW = (10.0, 4.6), (4.6, 4.6)
"""Inches of a picture, on a screen and on a telephone."""
BLOCKS = (1, 64, 1 << 10, 1 << 13, 1 << 16, 1 << 20, 1 << 24)
RATIOS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)

Draw = Callable[[Any], None]
"""Puts something on axes whose horizontal one is the block."""


def for_screens(draw: Draw, ylabel: str, salt: str) -> str:
    """A picture as part of a page, once for wide and once for narrow screens."""
    shapes = (("wide", WIDE, 2), ("narrow", NARROW, 1))
    return "".join(
        f'<div class="{kind}">{picture(draw, ylabel, salt + kind, size, columns)}</div>'
        for kind, size, columns in shapes
    )


def picture(draw: Draw, ylabel: str, salt: str, size: tuple[float, float], columns: int) -> str:
    """An SVG element, the same bytes each time; its legend, in so many columns, is below it."""
    settings: Any = {"svg.hashsalt": salt, "svg.fonttype": "none", "font.size": 11}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=size, layout="constrained")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("block (bytes to each peer)")
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.25)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        draw(axes)
        low, high = axes.get_xlim()
        axes.set_xticks([tick for tick in BLOCKS if low <= tick <= high])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: size_text(int(x))))
        axes.minorticks_off()
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            figure.legend(
                handles, labels, loc="outside lower center", ncols=columns, frameon=False,
                fontsize=10,
            )  # fmt: skip
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def ratio_axis(axes: Any, low: float, high: float) -> None:
    """Make the vertical axis one of ratios between these, with a line at 1."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks([tick for tick in RATIOS if low < tick < high])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g} x"))
    axes.axhline(1.0, color="#444444", linewidth=1.0)


def bands(axes: Any, rows: Sequence[tuple[int | None, str]], blocks: Sequence[int]) -> None:
    """The rows of a table, as the largest block of each (None: any) and its variant's label, behind
    what is drawn at these blocks."""
    colours = [matplotlib.colormaps[name](i) for name in ("Pastel1", "Pastel2") for i in range(8)]
    low, least, most = 1.0, min(blocks) / 1.2, max(blocks) * 1.2
    for number, (end, label) in enumerate(rows):
        high = float(end or most)
        colour = colours[number % len(colours)]
        axes.axvspan(max(low, least), min(high, most), color=colour, label=label, linewidth=0)
        low = high
    axes.set_xlim(least, most)
