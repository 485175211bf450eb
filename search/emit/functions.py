"""Functions of C from templates: bodies, and those that bodies call."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from search.catalogue.algorithm import Algorithm, Body
from search.catalogue.expression import as_c
from search.emit.c_text import comment_text, literal, symbol
from search.errors import UserError


@dataclass(frozen=True)
class RenderedBody:
    """A function of C with what the page says of it."""

    text: Markup
    label: Markup
    symbol: Markup
    constant: Markup
    serves: Markup
    scratch: Markup | None
    scratch_symbol: Markup
    scratch_is_optional: Markup
    awake: Markup


@dataclass(frozen=True)
class RenderedAlgorithm:
    """Its private functions that are used, and its bodies."""

    functions: list[Markup]
    bodies: list[RenderedBody]


def _bound(body: Body) -> dict[str, Any]:
    """What a body's template is filled with."""
    cost = Markup("\n * ".join(textwrap.wrap(comment_text(body.cost), 70)))
    return {"symbol": symbol(body.symbol), "cost": cost, **dict(body.binding)}


def _template_of(algorithm: Algorithm) -> str:
    return f"{algorithm.collective.name}/{algorithm.path.name}"


def render_algorithm(
    environment: Environment, algorithm: Algorithm, bodies: Sequence[Body], lazy: Collection[str]
) -> RenderedAlgorithm:
    """Its bodies, and those of its private functions that they use; what is ``lazy`` of that which
    it keeps is set up when it runs."""
    rendered = [_render_body(environment, body, lazy) for body in bodies]
    private = functions_of(environment, _template_of(algorithm), **_bound(bodies[0]))
    text = "\n".join(body.text for body in rendered)
    return RenderedAlgorithm(used_by(private, text), rendered)


def _render_body(environment: Environment, body: Body, lazy: Collection[str]) -> RenderedBody:
    algorithm = body.algorithm
    template = environment.get_template(_template_of(algorithm))
    name = symbol(body.symbol)
    numbers = [number.name for number in body.numbers]
    text = template.render(_bound(body))
    if len(algorithm.requires) > 1:
        raise UserError(f"{algorithm.name}: more than one need is not supported")
    late = [name for name in algorithm.keeps if name in lazy]
    if len(late) > 1:
        raise UserError(f"{algorithm.name}: it keeps {' and '.join(late)}: one may be lazy")
    return RenderedBody(
        text=Markup(text.lstrip("\n")),
        label=literal(body.label),
        symbol=name,
        constant=symbol(body.symbol.upper()),
        serves=symbol(f"atall_{algorithm.requires[0]}" if algorithm.requires else "NULL"),
        scratch=Markup(as_c(body.scratch, numbers)) if body.scratch else None,
        scratch_symbol=symbol(f"{body.symbol}_bytes" if body.scratch else "NULL"),
        awake=symbol(f"atall_set_up_{late[0]}" if late else "NULL"),
        scratch_is_optional=symbol("true" if algorithm.scratch_is_optional else "false"),
    )


SHARED = "messages"
"""The folder of templates with functions that several algorithms call."""


def functions_of(environment: Environment, name: str, **values: object) -> dict[str, Markup]:
    """The functions of C that a template has as macros, by name."""
    module = vars(environment.get_template(name).make_module(values))
    return {name: macro() for name, macro in module.items() if name.startswith("atall_")}


def shared_functions(
    environment: Environment, templates: Path, **values: object
) -> dict[str, Markup]:
    """What algorithms share, by name."""
    found: dict[str, Markup] = {}
    for path in sorted((templates / SHARED).glob("*.j2")):
        if "{% macro" in path.read_text(encoding="utf-8"):
            found |= functions_of(environment, f"{SHARED}/{path.name}", **values)
    return found


def used_by(functions: Mapping[str, Markup], text: str) -> list[Markup]:
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
