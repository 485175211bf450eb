"""Text that may reach C, marked as such; templates that take nothing else.

What reaches the C is a number or was marked as C by one of ``symbol``, ``literal``, ``quoted`` and
``comment``; a plain string raises.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from search.errors import UserError


def symbol(text: str) -> Markup:
    """A C identifier."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise UserError(f"{text!r} cannot be a name in C")
    return Markup(text)


def literal(text: str) -> Markup:
    """A C string literal of printable ASCII without what C would read otherwise."""
    if not re.fullmatch(r"[A-Za-z0-9 _=,.()/+-]*", text):
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


def environment_of(templates: Path) -> Environment:
    """Templates of C: what reaches it is marked, and nothing may be undefined."""
    made = Environment(
        loader=FileSystemLoader(templates),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=True,  # so that what macros return is told from plain strings
        finalize=_finalize,
    )
    made.globals.update(c=Markup, unknown=_unknown)
    return made


def fill_template(path: Path, values: Mapping[str, str]) -> str:
    """A template that is no C, such as a man page, with text in it as it is."""
    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    return environment.from_string(path.read_text(encoding="utf-8")).render(values)
