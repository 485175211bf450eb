"""Decision and templates in, C out. Emission is pure: the same inputs give the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from search.catalogue.algorithm import SCRATCH_BLOCK, SCRATCH_MOST, Variant
from search.catalogue.catalogue import Catalogue, numbers_of
from search.decide.decision import FAR_EACH, FAR_LOAD, FAR_RANKS, Decision, TreeNode
from search.emit.c_text import environment_of, symbol
from search.emit.functions import functions_of, render_algorithm, shared_functions, used_by
from search.emit.keepers import keepers_for
from search.emit.tables import head_of, numbers_passed, tables_of

NEEDS = "runtime/needs.j2"
"""The predicates of what algorithms require."""
MOST_DEPTH = 2
"""Messages that may follow each other on a cable at a time in a planned exchange."""

TAGS = ("BLOCK", "TOKEN", "OWN", "HOST", "PHASE")
"""Of messages, from 1 on; tokens of phases add numbers to the last one."""


def _most_depth(variants: Sequence[Variant]) -> int:
    """The largest ``depth`` of one: tokens are worked out up to it."""
    depths = (dict(variant.values).get("depth", 1) for variant in variants)
    return min(MOST_DEPTH, max(depths, default=1))


def _tree(decision: Decision) -> list[dict[str, Any]]:
    """The nodes of the cluster's tree; one without hosts where none is known."""
    return [
        {
            "parent": node.parent,
            "speed": node.speed,
            "host": Markup(f"UINT64_C(0x{node.host:016x})") if node.host else 0,
        }
        for node in decision.tree or (TreeNode(-1, 1, 0), TreeNode(0, 1, 0))
    ]


def emit_c(
    decision: Decision,
    catalogue: Catalogue,
    templates: Path,
    all_bodies: bool = False,
    also: Sequence[Variant] = (),
    beside: Sequence[Catalogue] = (),
) -> str:
    """alltoall.c for a decision, with the bodies that its rows name and what these need, ``also``
    for these variants, or with all bodies; with all of those ``beside`` it, too."""
    environment = environment_of(templates)
    variants = [*(row.variant for row in decision.rows), *also]
    named = {variant.body.label for variant in variants}
    named.add(catalogue.collective.native)
    others = [body for other in beside for body in other.bodies()]
    chosen = [b for b in catalogue.bodies() if all_bodies or b.label in named] + others
    known = [*catalogue.bodies(), *others]
    by_placement = any(table.hosts for table in decision.tables)
    keepers = keepers_for(
        templates, chosen, variants, all_bodies, ["placement"] if by_placement else []
    )
    kept = {keeper.name for keeper in keepers}
    used = {
        number.name for body in chosen for number in body.numbers if number.keeps in {None, *kept}
    }
    numbers = [number for number in numbers_of(known) if number.name in used]
    algorithms = [
        render_algorithm(
            environment,
            algorithm,
            [b for b in chosen if b.algorithm == algorithm],
            {keeper.name for keeper in keepers if keeper.lazy},
        )
        for algorithm in dict.fromkeys(body.algorithm for body in chosen)
    ]
    values = {
        **head_of(decision),
        **numbers_passed(numbers),
        "bodies": [body for algorithm in algorithms for body in algorithm.bodies],
        "algorithms": algorithms,
        "tables": tables_of(decision, numbers),
        "collectives": [symbol(catalogue.collective.name)],
        "keepers": [symbol(keeper.name) for keeper in keepers],
        "early": [symbol(keeper.name) for keeper in keepers if not keeper.lazy],
        "inner": [symbol(k.name) for k in keepers if not (k.lazy or k.whole)],
        "lazy": [symbol(keeper.name) for keeper in keepers if keeper.lazy],
        "wrappers": [symbol(keeper.name) for keeper in keepers if keeper.wraps],
        "hashes": any(keeper.hashes for keeper in keepers),
        "lent": [symbol(name) for name in sorted({n for b in chosen for n in b.algorithm.keeps})],
        "rankings": "rankings" in kept,
        "kept_numbers": [
            {"name": symbol(number.name), "keeps": symbol(number.keeps)}
            for number in numbers
            if number.keeps
        ],
        "by_placement": by_placement,
        "far_ranks": FAR_RANKS,
        "far_each": FAR_EACH,
        "far_load": FAR_LOAD,
        "tree": _tree(decision),
        "unequal_cables": len({node.speed for node in decision.tree[1:]}) > 1,
        "most_depth": MOST_DEPTH if all_bodies else _most_depth(variants),
        "scratch_block": SCRATCH_BLOCK,
        "scratch_most": SCRATCH_MOST,
        "parts": False,
        "tags": [],
        "functions": [],
        "needs": used_by(
            functions_of(environment, NEEDS),
            " ".join(body.serves for algorithm in algorithms for body in algorithm.bodies),
        ),
        "file_mark": 0,
    }
    page = environment.get_template("alltoall.c.j2")
    values["functions"] = used_by(
        shared_functions(environment, templates, rankings="rankings" in kept),
        page.render(values),
    )
    text = page.render(values)
    values["tags"] = _tags(text)
    values["parts"] = "ATALL_MOST_PARTS" in text
    return page.render({**values, "file_mark": _mark_of(page.render(values))})


def _tags(text: str) -> list[dict[str, Any]]:
    """The tags of messages that a text uses."""
    every = ((symbol(f"ATALL_TAG_{name}"), value) for value, name in enumerate(TAGS, 1))
    return [{"name": name, "value": value} for name, value in every if name in text]


def _mark_of(text: str) -> int:
    """A positive int of C that hardly any other file has."""
    return 1 + (zlib.crc32(text.encode()) >> 2)


def emit_h(templates: Path) -> str:
    """alltoall.h."""
    return environment_of(templates).get_template("alltoall.h.j2").render()
