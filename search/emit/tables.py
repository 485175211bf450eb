"""What a page says of a decision: its head, tables, and the numbers that rows pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from search.catalogue.parameter import Number
from search.decide.decision import Cutoff, Decision, DecisionTable, Origin
from search.emit.c_text import comment, comment_text, literal, quoted, symbol

LIBRARY_WORDS = 2
"""Of what an MPI library calls itself: its name and version."""


def word(number: Number, value: int) -> Markup:
    """The enumerator of a named value."""
    return symbol(f"ATALL_{number.name}_{number.labels[value]}".upper())


def _row(cutoff: Cutoff, numbers: Sequence[Number]) -> dict[str, Any]:
    values = {
        name: word(number, value) if number.labels else value
        for number in numbers
        for name, value in cutoff.variant.values
        if name == number.name and not (number.optional and value == number.min)
    }
    most = Markup("SIZE_MAX") if cutoff.most is None else cutoff.most
    return {
        "why": comment(cutoff.why or "by hand"),
        "most": most,
        "constant": symbol(cutoff.variant.body.symbol.upper()),
        "numbers": Markup(", ".join(f".{name} = {value}" for name, value in values.items()) or "0"),
        "label": literal(cutoff.variant.label),
    }


def _of_grid(tuned: Origin) -> str:
    """That communicators of a process grid were tuned, if so."""
    return " in a grid of {} x {}".format(*tuned.grid) if tuned.grid else ""


def _table_comment(table: DecisionTable, decision: Decision) -> Markup:
    if not table.ranks and decision.tuned:
        return comment("For what is far from all that was measured.", indent=0)
    measured = "Published cut-offs, not measured"
    if table.ranks:
        measured = f"Measured on {table.title}"
    if decision.tuned and table.ranks in decision.tuned.grid:
        measured += ", each row or column of the grid, all at once"
    near = "those nearest to it" if table.ranks else "communicators"
    served = "any" if table is decision.tables[-1] else f"{near} that all its rows can serve"
    return comment(f"{measured}; for {served}.", indent=0)


def tables_of(decision: Decision, numbers: Sequence[Number]) -> list[dict[str, Any]]:
    """The tables, for numbers that the file has."""
    return [
        {
            "comment": _table_comment(table, decision),
            "symbol": symbol(f"atall_rows_{index}"),
            "ranks": table.ranks,
            "hosts": table.hosts,
            "each": table.each,
            "load": Markup(repr(float(table.load))),
            "length": len(table.cutoffs),
            "rows": [_row(cutoff, numbers) for cutoff in table.cutoffs],
        }
        for index, table in enumerate(decision.tables)
    ]


MARK = "@(#)atall "
"""Begins each line that atall-info prints, in whatever file it finds it."""


def info_of(decision: Decision) -> list[str]:
    """What a file was tuned for and what its tables say, in lines."""
    tuned = decision.tuned
    lines = ["not tuned: published cut-offs"]
    if tuned:
        on = f"{tuned.ranks} ranks{_of_grid(tuned)} on {len(tuned.hosts)} host(s)"
        lines = [f"tuned with {tuned.library}, {on}; fingerprint {tuned.fingerprint}"]
    for table in decision.tables:
        other = decision.tuned and not table.ranks
        lines.append(f"table for {'all other communicators' if other else table.title}:")
        for row in table.cutoffs:
            most = "beyond" if row.most is None else f"to {row.most} bytes"
            lines.append(f"  {most}: {row.variant.label}")
    return [MARK + line for line in lines]


def head_of(decision: Decision) -> dict[str, Any]:
    """What the page says of the tuning."""
    tuned, info = decision.tuned or Origin(), info_of(decision)
    words = tuned.library.split()[:LIBRARY_WORDS]
    return {
        "tuned": decision.tuned is not None,
        "library": comment_text(tuned.library),
        "library_words": Markup(", ").join(map(quoted, words)),
        "ranks": tuned.ranks,
        "grid": comment_text(_of_grid(tuned)),
        "hosts": len(tuned.hosts),
        "fingerprint": comment_text(tuned.fingerprint),
        "noise": comment_text(tuned.noise),
        "dilation": comment_text(tuned.dilation),
        "steal": comment_text(f"{tuned.steal:.0%}" if tuned.steal else ""),
        "info": [quoted(line) for line in info],
        "info_width": 1 + max(map(len, info)),
        "mark_length": len(MARK),
    }


def numbers_passed(numbers: Sequence[Number]) -> dict[str, Any]:
    """The numbers that rows pass to bodies."""
    return {
        "parameters": [
            {
                "name": symbol(number.name),
                "quoted": literal(number.name),
                "least": number.min,
                "about": comment(number.about),
                "list": literal("".join(f"{name}," for name in number.labels))
                if number.labels
                else Markup("NULL"),
                "words": [{"constant": word(number, value)} for value in range(len(number.labels))],
            }
            for number in numbers
        ]
    }
