"""The decide stage: samples in, tables out; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from search.algorithm import Variant
from search.decision import Cutoff, DecisionTable, merge_equal
from search.measure.journal import Record
from search.measure.samples import ratio_interval
from search.measure.strategy import Cell, choose
from search.progress import size_text


def cells_of(records: Iterable[Record], variants: Sequence[Variant]) -> dict[int, Cell]:
    """All samples by block; in each cell the variants keep the catalogue's order."""
    records = list(records)
    failed = {record.label for record in records if record.failure}
    by_key: dict[tuple[int, str], list[Record]] = {}
    for record in records:
        by_key.setdefault((record.block, record.label), []).append(record)
    cells: dict[int, Cell] = {}
    for block in sorted({record.block for record in records}):
        cell = cells[block] = Cell(block)
        for variant in variants:
            samples = [r.sample for r in by_key.get((block, variant.label), []) if r.sample]
            if samples and variant.label not in failed:
                cell.samples[variant] = samples
    return {block: cell for block, cell in cells.items() if cell.samples}


Limit = Callable[[int], Optional[float]]
"""The physical limit of a block in seconds, if the links' speeds are known."""


def unknown_limit(block: int) -> float | None:
    """The limit where no speed is known."""
    return None


def decide_table(
    ranks: int, cells: Mapping[int, Cell], native: Variant, limit: Limit = unknown_limit
) -> DecisionTable:
    """One table: each measured block's choice, with the cut-off halfway between neighbours."""
    blocks = sorted(cells)
    incumbent = native
    cutoffs = []
    for block, following in zip(blocks, [*blocks[1:], None]):
        incumbent = choose(cells[block], incumbent)
        most = None if following is None else max(block, math.isqrt(block * following))
        why = evidence(cells[block], incumbent, native, limit(block))
        cutoffs.append(Cutoff(most, incumbent, why))
    return DecisionTable(ranks, merge_equal(cutoffs))


def evidence(cell: Cell, winner: Variant, native: Variant, limit: float | None = None) -> str:
    """Why a variant was chosen at a block, in one line."""
    samples = cell.samples[winner]
    parts = []
    if winner != native and native in cell.samples:
        ratio = ratio_interval(cell.seconds(native), cell.seconds(winner))
        parts.append(
            f"{cell.score(native) / cell.score(winner):.2f} x native "
            f"({ratio.low:.2f}-{ratio.high:.2f})"
        )
    rivals = [v for v in cell.samples if v not in (winner, native)]
    if rivals:
        next_best = min(rivals, key=cell.score)
        factor = cell.score(next_best) / cell.score(winner)
        parts.append(f"{factor:.2f} x {next_best.label}")
    again = sum(sample.retransmissions for sample in samples)
    reached = f"{limit / cell.score(winner):.0%} of the physical limit; " if limit else ""
    return (
        f"at {size_text(cell.block)}: {' and '.join(parts) or 'alone'}; {reached}"
        f"{len(samples)} calls, {again} retransmissions"
    )


def decide(
    ranks: int,
    cells: Mapping[int, Cell],
    sizes: Sequence[int],
    variants: Sequence[Variant],
    limit: Limit = unknown_limit,
) -> tuple[DecisionTable, ...]:
    """The table for ``ranks``; and, where its rows need something, one whose rows do not.

    The second rests on the blocks where all variants were measured.
    """
    native = variants[0]
    table = decide_table(ranks, cells, native, limit)
    if not table.needs:
        return (table,)
    free = [variant for variant in variants if not variant.needs]
    grid = {block: cells[block].restricted(free) for block in sizes if block in cells}
    return table, decide_table(ranks, {b: c for b, c in grid.items() if c.samples}, native, limit)
