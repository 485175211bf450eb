"""What each family of algorithms contributes: the best of each, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from search.catalogue.algorithm import Variant
from search.catalogue.catalogue import Catalogue
from search.results.cell import Cell, cells_of
from search.results.record import Record
from search.results.workload import Workload
from search.sizes import size_text


def best_of_families(cell: Cell) -> dict[str, Variant]:
    """The best variant of each algorithm, the best of all first."""
    best: dict[str, Variant] = {}
    for variant in sorted(cell.rounds, key=cell.score):
        best.setdefault(variant.body.algorithm.name, variant)
    return best


def compare_families(
    console: Console, records: Sequence[Record], catalogue: Catalogue
) -> Mapping[Workload, dict[str, Variant]]:
    """Print as Markdown, for each number of ranks and block of a journal, the best variant, the
    next, and each family's score as a multiple of the best; then who never wins."""
    variants = [catalogue.variant(label) for label in {r.label for r in records if r.label}]
    cells = cells_of(records, variants)
    found = {workload: best_of_families(cell) for workload, cell in cells.items()}
    families = sorted(
        {name for best in found.values() for name in best},
        key=lambda name: min(_ratio(cells[p], best, name) for p, best in found.items()),
    )
    headings = ["ranks", "block", "best", "runner-up", *families]
    lines = [headings, ["---"] * len(headings)]
    for workload, best in found.items():
        cell = cells[workload]
        ranked = [variant.label for variant in sorted(cell.rounds, key=cell.score)]
        lines.append(
            [
                str(workload.ranks),
                size_text(workload.block),
                *(ranked + [""])[:2],
                *(f"{_ratio(cell, best, name):.2f}" if name in best else "" for name in families),
            ]
        )
    for line in lines:
        console.print(f"| {' | '.join(line)} |", markup=False, soft_wrap=True)
    winners = {next(iter(best)) for best in found.values()}
    idle = [name for name in families if name not in winners]
    console.print(f"never the best: {', '.join(idle) or 'none'}")
    return found


def _ratio(cell: Cell, best: Mapping[str, Variant], name: str) -> float:
    """A family's best score over the best of all."""
    first = next(iter(best.values()))
    return cell.score(best[name]) / cell.score(first) if name in best else float("inf")
