"""The command line: types of options, a parser with one subparser a verb, and how a verb is run."""

from __future__ import annotations

import argparse
import pkgutil
import re
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rich.console import Console

from search.catalogue.catalogue import Catalogue
from search.catalogue.collective import DEFAULT
from search.cli import verbs
from search.cli.desk import Desk
from search.cli.workplace import Workplace
from search.errors import UserError
from search.toolchain import TEMPLATES

LARGEST = 1 << 30
"""Bytes to each peer."""
PLAIN_WIDTH = 160
"""Columns where there is no terminal."""


def size(text: str) -> int:
    """Bytes, with K or M for 1024 and 1048576: ``64K``."""
    match = re.fullmatch(r"(\d{1,12})([kKmM]?)(?:i?B)?", text)
    value = int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2].lower()] if match else 0
    if not 1 <= value <= LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 256, 8K or 1M")
    return value


def sizes(text: str) -> tuple[int, ...]:
    """Several of them: ``1K,64K``."""
    return tuple(sorted({size(item) for item in text.split(",")}))


def names(text: str) -> tuple[str, ...]:
    """Words between commas."""
    return tuple(text.split(","))


def count(text: str) -> int:
    """A number of at least 1."""
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def counts(text: str) -> tuple[int, ...]:
    """Several of them: ``8,16``."""
    return tuple(sorted({count(item) for item in text.split(",")}))


def grid(text: str) -> tuple[int, int]:
    """Rows and columns: ``4x8``."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not match or match[0] == "1x1":
        raise argparse.ArgumentTypeError(f"{text!r} is not rows and columns, such as 4x8")
    return int(match[1]), int(match[2])


def add_collective(parser: argparse.ArgumentParser) -> None:
    """Which collective a verb is about."""
    parser.add_argument(
        "--collective", default=DEFAULT, metavar="NAME", help="a folder of templates/ [%(default)s]"
    )


class _Parser(argparse.ArgumentParser):
    """Errors in one line, with the exit code of a user's mistake."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UserError(message.replace("argument ", "", 1) + " (--help shows what there is)")


def known_verbs() -> dict[str, ModuleType]:
    """Every verb's module."""
    found = (module.name for module in pkgutil.iter_modules(verbs.__path__))
    return {name.replace("_", "-"): import_module(f"{verbs.__name__}.{name}") for name in found}


def parser() -> argparse.ArgumentParser:
    """All verbs with their options."""
    top = _Parser(prog="python -m search", allow_abbrev=False)
    below = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in known_verbs().items():
        line = (module.__doc__ or "").partition("\n")[0]
        one = below.add_parser(name, help=line, description=line, allow_abbrev=False)
        one.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
        if hasattr(module, "add_options"):
            module.add_options(one)
        one.set_defaults(run=module.run)
    return top


def parse_and_run(argv: Sequence[str] | None, root: Path) -> None:
    """Run the verb of a command line in a build directory."""
    begin = time.monotonic()
    options = parser().parse_args(argv)
    console = Console(quiet=options.quiet, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    catalogue = Catalogue(TEMPLATES / DEFAULT)
    options.run(Desk(console, Workplace(root), catalogue, begin), options)
