"""Where an installation goes: options of install, uninstall and installcheck."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from search.emit.install import Layout, checked_layout


def add_layout_options(parser: ArgumentParser) -> None:
    """Where."""
    parser.add_argument("--prefix", metavar="DIRECTORY", default="/usr/local")
    parser.add_argument("--destdir", metavar="DIRECTORY", default="", help="what to put before it")


def layout_of(options: Namespace) -> Layout:
    """The places that the options name; UserError if they cannot be."""
    return checked_layout(options.prefix, options.destdir)
