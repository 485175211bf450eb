"""The kinds of cluster: one file each, with one class, found by the file's name."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from search.cluster.backend import Backend
from search.cluster.hosts import Cluster
from search.errors import UserError


def _load(name: str) -> type[Backend]:
    """The class of a file."""
    module = import_module(f"{__name__}.{name}")
    own = (v for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__)
    return next(value for value in own if isinstance(value, type) and issubclass(value, Backend))


BACKENDS: dict[str, type[Backend]] = {
    module.name: _load(module.name) for module in pkgutil.iter_modules(__path__)
}
LAUNCHERS = sorted({backend.launcher for backend in BACKENDS.values()})
"""What --launcher= may name."""


def meant(options: Any, environment: Mapping[str, str]) -> str:
    """The name of the kind of cluster that the options mean."""
    return next(name for name, one in BACKENDS.items() if one.is_meant(options, environment))


def backend_of(name: str) -> type[Backend]:
    """The class of that name; UserError if there is none."""
    if name not in BACKENDS:
        raise UserError(f"no kind of cluster is called {name!r}: run ./configure again")
    return BACKENDS[name]


def shares_processors(cluster: Cluster) -> bool:
    """Whether several hosts are one machine."""
    return backend_of(cluster.backend).on_this_machine and len(cluster.ranks_on()) > 1
