"""The cluster that configure settled, and build/cluster.json, which keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from search.cli.settings import Settings
from search.cluster.backends import BACKENDS, meant
from search.cluster.hosts import Cluster, ordered, wanted_ranks
from search.errors import HostsFailed, UserError
from search.files import read_json, write_json


def make_cluster(options: Any, environment: Mapping[str, str]) -> tuple[Cluster, str]:
    """The cluster that the options (see options.py) describe, and what to tell the user of it;
    UserError where they cannot."""
    name = meant(options, environment)
    found = BACKENDS[name].find(options, environment)
    name_of = found.topology.names.of
    known = {name_of(host) for host in found.topology.hosts}
    for host in found.hosts:
        if name_of(host.name) not in known:
            raise UserError(
                f"{found.source}: host {host.name} is missing: every host of the job must hang off "
                "a switch"
            )
    slots = sum(host.slots for host in found.hosts)
    ranks = wanted_ranks(options) or slots
    if ranks > slots:
        option = "--grid" if options.grid else "--np"
        raise UserError(f"{option}: {ranks} ranks are wanted, the hosts have {slots} slots in all")
    hosts = ordered(found.hosts, found.topology, options.order)
    cluster = Cluster(name, tuple(hosts), ranks, found.topology, found.buffer, options.grid or ())
    return cluster, BACKENDS[name].introduction(found)


def shrink(cluster: Cluster, settings: Settings, failure: HostsFailed) -> tuple[Cluster, Settings]:
    """The cluster and the settings without hosts that failed; that failure where nothing that was
    asked for can be had without them."""
    smaller = cluster.without(failure.hosts)
    profile = {n: blocks for n, blocks in settings.profile.items() if n <= smaller.ranks}
    ranks = tuple(sorted({min(n, smaller.ranks) for n in settings.ranks}))
    if settings.placed:  # they name what is not there any more
        raise failure
    if settings.profile:
        ranks = tuple(n for n in ranks if n in profile)
    if smaller.ranks < 2 or not ranks or (cluster.grid and smaller.ranks < cluster.ranks):
        raise failure
    return smaller, replace(settings, ranks=ranks, profile=profile)


@dataclass(frozen=True)
class Configured:
    """What build/cluster.json holds."""

    cluster: Cluster
    settings: Settings


def write_cluster(path: Path, cluster: Cluster, settings: Settings) -> None:
    """Keep the cluster and the settings of the search, for every later stage."""
    write_json(path, Configured(cluster, settings))


def read_cluster(path: Path) -> tuple[Cluster, Settings]:
    """Read what ``write_cluster`` wrote; UserError if configure never ran."""
    if not path.exists():
        raise UserError("no cluster is configured here: run ./configure first")
    try:
        found = read_json(path, Configured)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): run ./configure again") from error
    return found.cluster, found.settings
