"""Install the generated file as a library, with all that finds it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.cli.desk import Desk
from search.cli.layout import add_layout_options, layout_of
from search.cli.verbs import emit
from search.emit.install import build_library, install


def add_options(parser: ArgumentParser) -> None:
    """Where."""
    add_layout_options(parser)


def run(desk: Desk, options: Namespace) -> None:
    """Do it, making first what is not made yet."""
    tools, place = desk.tools, desk.place
    layout = layout_of(options)
    if not (place.generated / "alltoall.c").exists():
        emit.run(desk, options)
    build_library(tools, place.generated, place.build)
    install(place.root, layout, tools.version, desk.say)
