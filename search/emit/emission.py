"""Decision and templates in, C out. The only module that knows Jinja.

Emission is pure: the same inputs give the same bytes. What reaches the C is a number or was
marked as C by one of ``symbol``, ``literal`` and ``comment``; a plain string raises.
"""

from __future__ import annotations

import re
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from search.catalogue.algorithm import SCRATCH_BLOCK, SCRATCH_MOST, Algorithm, Body, Variant
from search.catalogue.catalogue import Catalogue
from search.catalogue.expression import as_c
from search.catalogue.front_matter import front_matter
from search.catalogue.parameter import Number
from search.decide.decision import Cutoff, Decision, TreeNode
from search.errors import UserError

MOST_DEPTH = 2
"""Messages that may follow each other on a cable at a time in a planned exchange."""

LIBRARY_WORDS = 2
"""Of what an MPI library calls itself: its name and version."""

TAGS = ("BLOCK", "TOKEN", "OWN", "HOST", "PHASE")
"""Of messages, from 1 on; tokens of phases add numbers to the last one."""

SERVES = {"power_of_two": "atall_power_of_two", "topology": "atall_on_tree"}
"""The predicate in C of each need."""


def symbol(text: str) -> Markup:
    """A C identifier."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise UserError(f"{text!r} cannot be a name in C")
    return Markup(text)


def literal(text: str) -> Markup:
    """A C string literal of printable ASCII without what C would read otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9 _=,.()+-]*", text):
        raise UserError(f"{text!r} cannot be a string in C")
    return Markup(f'"{text}"')


def quoted(text: str) -> Markup:
    """A C string literal of any text: what must not stand in one becomes a dot."""
    plain = re.sub(r"[^ !#-\[\]-~]", ".", text)
    return Markup('"' + re.sub(r"\?(?=\?)", ".", plain) + '"')


def comment_text(text: str) -> Markup:
    """Text inside a C comment: one line, printable ASCII, and nothing that could end it."""
    plain = re.sub(r"[^ -~]", ".", " ".join(text.split()))
    return Markup(re.sub(r"\?(?=\?)", "? ", plain.replace("*/", "* /").replace("/*", "/ *")))


def comment(text: str, indent: int = 4) -> Markup:
    """A whole C comment, wrapped, for so many columns of indentation."""
    lines = textwrap.wrap(comment_text(text), 92 - indent) or [""]
    return Markup("/* " + f"\n{' ' * indent} * ".join(lines) + " */")


def _finalize(value: object) -> object:
    if isinstance(value, (bool, int, float, Markup)):
        return value
    raise UserError(f"{value!r} is not marked as C and must not reach it")


def _unknown(parameter: str, value: object) -> NoReturn:
    raise UserError(f"a template does not know {parameter} = {value!r}")


def _environment(templates: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=True,  # so that what macros return is told from plain strings
        finalize=_finalize,
    )
    environment.globals.update(c=Markup, unknown=_unknown)
    return environment


@dataclass(frozen=True)
class _RenderedBody:
    text: Markup
    label: Markup
    symbol: Markup
    constant: Markup
    serves: Markup
    scratch: Markup | None
    scratch_symbol: Markup
    scratch_is_optional: Markup


@dataclass(frozen=True)
class _RenderedAlgorithm:
    functions: list[Markup]
    bodies: list[_RenderedBody]


def _bound(body: Body) -> dict[str, Any]:
    """What a body's template is filled with."""
    cost = Markup("\n * ".join(textwrap.wrap(comment_text(body.cost), 70)))
    return {"symbol": symbol(body.symbol), "cost": cost, **dict(body.binding)}


def _render_algorithm(
    environment: Environment, algorithm: Algorithm, bodies: Sequence[Body]
) -> _RenderedAlgorithm:
    """Its bodies, and those of its private functions that they use."""
    rendered = [_render_body(environment, body) for body in bodies]
    private = _functions(environment, f"alltoall/{algorithm.path.name}", **_bound(bodies[0]))
    text = "\n".join(body.text for body in rendered)
    return _RenderedAlgorithm(_used(private, text), rendered)


def _render_body(environment: Environment, body: Body) -> _RenderedBody:
    algorithm = body.algorithm
    template = environment.get_template(f"alltoall/{algorithm.path.name}")
    name = symbol(body.symbol)
    numbers = [number.name for number in body.numbers]
    text = template.render(_bound(body))
    if len(algorithm.requires) > 1:
        raise UserError(f"{algorithm.name}: more than one need is not supported")
    return _RenderedBody(
        text=Markup(text.lstrip("\n")),
        label=literal(body.label),
        symbol=name,
        constant=symbol(body.symbol.upper()),
        serves=symbol(SERVES[algorithm.requires[0]] if algorithm.requires else "NULL"),
        scratch=Markup(as_c(body.scratch, numbers)) if body.scratch else None,
        scratch_symbol=symbol(f"{body.symbol}_bytes" if body.scratch else "NULL"),
        scratch_is_optional=symbol("true" if algorithm.scratch_is_optional else "false"),
    )


SHARED = "messages"
"""The folder of templates with functions that several algorithms call."""
NEEDS = "runtime/needs.j2"


def _functions(environment: Environment, name: str, **values: object) -> dict[str, Markup]:
    """The functions of C that a template has as macros, by name."""
    module = vars(environment.get_template(name).make_module(values))
    return {name: macro() for name, macro in module.items() if name.startswith("atall_")}


def _shared_functions(
    environment: Environment, templates: Path, **values: object
) -> dict[str, Markup]:
    """What algorithms share, by name."""
    found: dict[str, Markup] = {}
    for path in sorted((templates / SHARED).glob("*.j2")):
        if "{% macro" in path.read_text(encoding="utf-8"):
            found |= _functions(environment, f"{SHARED}/{path.name}", **values)
    return found


def _used(functions: Mapping[str, Markup], text: str) -> list[Markup]:
    """The functions that a text uses, directly or through others, each behind those it uses."""
    found: dict[str, Markup] = {}

    def visit(names: Iterable[str]) -> None:
        for name in names:
            if name in functions and name not in found:
                visit(_names_in(functions[name], name))
                found[name] = functions[name]

    visit(_names_in(text))
    return [*found.values()]


def _names_in(text: str, but: str = "") -> list[str]:
    """Names of ours in a text of C, in their order."""
    return [name for name in dict.fromkeys(re.findall(r"\batall_\w+", text)) if name != but]


def _word(number: Number, value: int) -> Markup:
    """The enumerator of a named value."""
    return symbol(f"ATALL_{number.name}_{number.labels[value]}".upper())


def _row(cutoff: Cutoff, numbers: Sequence[Number]) -> dict[str, Any]:
    values = {
        name: _word(number, value) if number.labels else value
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


def _of_grid(tuned: Mapping[str, Any]) -> str:
    """That communicators of a process grid were tuned, if so."""
    return " in a grid of {} x {}".format(*tuned["grid"]) if tuned.get("grid") else ""


def _table_comment(ranks: int, last: bool, tuned: Mapping[str, Any]) -> Markup:
    measured = f"Measured on {ranks} ranks" if ranks else "Published cut-offs, not measured"
    if ranks in tuned.get("grid", ()):
        measured += " of each row or column of the grid, all at once"
    near = "the numbers of ranks nearest to it" if ranks else "those numbers of ranks"
    served = "any number of ranks" if last else f"{near} that all its rows serve"
    return comment(f"{measured}; for {served}.", indent=0)


def _tables(decision: Decision, numbers: Sequence[Number]) -> list[dict[str, Any]]:
    count = len(decision.tables)
    return [
        {
            "comment": _table_comment(table.ranks, index == count - 1, decision.tuned),
            "symbol": symbol(f"atall_rows_{index}"),
            "ranks": table.ranks,
            "length": len(table.cutoffs),
            "rows": [_row(cutoff, numbers) for cutoff in table.cutoffs],
        }
        for index, table in enumerate(decision.tables)
    ]


MARK = "@(#)atall "
"""Begins each line that atall-info prints, in whatever file it finds it."""


def _info(decision: Decision) -> list[str]:
    """What a file was tuned for and what its tables say, in lines."""
    tuned = decision.tuned
    lines = ["not tuned: published cut-offs"]
    if tuned:
        hosts = len(tuned.get("hosts", []))
        on = f"{tuned.get('ranks', '?')} ranks{_of_grid(tuned)} on {hosts} host(s)"
        name, mark = tuned.get("library", "?"), tuned.get("fingerprint", "?")
        lines = [f"tuned with {name}, {on}; fingerprint {mark}"]
    for table in decision.tables:
        lines.append(f"table for {table.ranks or 'all numbers of'} ranks:")
        for row in table.cutoffs:
            most = "beyond" if row.most is None else f"to {row.most} bytes"
            lines.append(f"  {most}: {row.variant.label}")
    return [MARK + line for line in lines]


@dataclass(frozen=True)
class Keeper:
    """What is kept with a communicator: a folder of templates with kept.j2 (its struct) and
    keeping.j2 (set up and released), in whose front matter stands what it needs to be there before
    (``after``), whether it ``wraps`` bodies (wrapping.j2), and whether it hashes names of hosts."""

    name: str
    after: tuple[str, ...]
    wraps: bool
    hashes: bool


def read_keeper(templates: Path, name: str) -> Keeper:
    """Read its front matter."""
    path = templates / name / "keeping.j2"
    matter = front_matter(path)
    return Keeper(
        name, tuple(matter.get("after", ())), "wraps" in matter, matter.get("hashes", False)
    )


def _keepers(
    templates: Path, bodies: Sequence[Body], variants: Sequence[Variant], every: bool
) -> list[Keeper]:
    """What is kept for these bodies and variants, or for all that bodies can be told: each behind
    what it needs, those that wrap bodies last."""
    wanted = [name for body in bodies for name in body.algorithm.keeps]
    for body in bodies if every else ():
        wanted += [number.keeps for number in body.numbers if number.keeps]
    for variant in variants:
        values = dict(variant.values)
        numbers = (n for n in variant.body.numbers if n.keeps and values.get(n.name, 0))
        wanted += [number.keeps for number in numbers if number.keeps]
    found: dict[str, Keeper] = {}

    def visit(name: str) -> None:
        keeper = read_keeper(templates, name)
        for before in keeper.after:
            visit(before)
        found.setdefault(name, keeper)

    for name in dict.fromkeys(wanted):
        visit(name)
    return sorted(found.values(), key=lambda keeper: keeper.wraps)


def _most_depth(variants: Sequence[Variant]) -> int:
    """The largest ``depth`` of one: tokens are worked out up to it."""
    depths = (dict(variant.values).get("depth", 1) for variant in variants)
    return min(MOST_DEPTH, max(depths, default=1))


def _tree(decision: Decision) -> list[dict[str, Any]]:
    """The nodes of the cluster's tree; one without hosts where none is known."""
    return [
        {
            "parent": node.parent,
            "capacity": node.capacity,
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
) -> str:
    """alltoall.c for a decision, with the bodies that its rows name and what these need, ``also``
    for these variants, or with all bodies."""
    environment = _environment(templates)
    variants = [*(row.variant for row in decision.rows), *also]
    named = {variant.body.label for variant in variants}
    chosen = [b for b in catalogue.bodies() if all_bodies or b.label in named | {"native"}]
    keepers = _keepers(templates, chosen, variants, all_bodies)
    kept = {keeper.name for keeper in keepers}
    used = {
        number.name for body in chosen for number in body.numbers if number.keeps in {None, *kept}
    }
    numbers = [number for number in catalogue.numbers if number.name in used]
    algorithms = [
        _render_algorithm(environment, algorithm, [b for b in chosen if b.algorithm == algorithm])
        for algorithm in dict.fromkeys(body.algorithm for body in chosen)
    ]
    values = {
        **_head(decision),
        **_numbers(numbers),
        "bodies": [body for algorithm in algorithms for body in algorithm.bodies],
        "algorithms": algorithms,
        "tables": _tables(decision, numbers),
        "keepers": [symbol(keeper.name) for keeper in keepers],
        "wrappers": [symbol(keeper.name) for keeper in keepers if keeper.wraps],
        "hashes": any(keeper.hashes for keeper in keepers),
        "lent": [symbol(name) for name in sorted({n for b in chosen for n in b.algorithm.keeps})],
        "rankings": "rankings" in kept,
        "tree": _tree(decision),
        "most_depth": MOST_DEPTH if all_bodies else _most_depth(variants),
        "scratch_block": SCRATCH_BLOCK,
        "scratch_most": SCRATCH_MOST,
        "parts": False,
        "tags": [],
        "functions": [],
        "needs": _used(
            _functions(environment, NEEDS),
            " ".join(body.serves for algorithm in algorithms for body in algorithm.bodies),
        ),
        "file_mark": 0,
    }
    page = environment.get_template("alltoall.c.j2")
    values["functions"] = _used(
        _shared_functions(environment, templates, rankings="rankings" in kept),
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


def _head(decision: Decision) -> dict[str, Any]:
    """What the page says of the tuning."""
    tuned, info = decision.tuned, _info(decision)
    library = str(tuned.get("library", ""))
    return {
        "tuned": bool(tuned),
        "library": comment_text(library),
        "library_words": Markup(", ").join(map(quoted, library.split()[:LIBRARY_WORDS])),
        "ranks": int(tuned.get("ranks", 0)),
        "grid": comment_text(_of_grid(tuned)),
        "hosts": len(tuned.get("hosts", [])),
        "fingerprint": comment_text(str(tuned.get("fingerprint", ""))),
        "noise": comment_text(str(tuned.get("noise", ""))),
        "dilation": comment_text(str(tuned.get("dilation", ""))),
        "steal": comment_text(f"{tuned['steal']:.0%}" if tuned.get("steal") else ""),
        "info": [quoted(line) for line in info],
        "info_width": 1 + max(map(len, info)),
        "mark_length": len(MARK),
    }


def _numbers(numbers: Sequence[Number]) -> dict[str, Any]:
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
                "words": [
                    {"constant": _word(number, value)} for value in range(len(number.labels))
                ],
            }
            for number in numbers
        ]
    }


def _mark_of(text: str) -> int:
    """A positive int of C that hardly any other file has."""
    return 1 + (zlib.crc32(text.encode()) >> 2)


def emit_h(templates: Path) -> str:
    """alltoall.h."""
    return _environment(templates).get_template("alltoall.h.j2").render()


def fill_template(path: Path, values: Mapping[str, str]) -> str:
    """A template that is no C, such as a man page, with text in it as it is."""
    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    return environment.from_string(path.read_text(encoding="utf-8")).render(values)
