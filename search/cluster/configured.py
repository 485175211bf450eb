"""The cluster that configure settled, and build/cluster.json, which keeps it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.cluster.backends import BACKENDS, meant
from search.cluster.hosts import Cluster, Host, place, wanted_ranks
from search.cluster.topology import Link, Topology
from search.errors import HostsFailed, UserError
from search.files import write_whole


def make_cluster(options: Any, environment: Mapping[str, str]) -> tuple[Cluster, str]:
    """The cluster that the options (see __main__) describe, and what to tell the user of it;
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
    ordered = place(found.hosts, found.topology, options.placement)
    cluster = Cluster(name, tuple(ordered), ranks, found.topology, found.buffer, options.grid or ())
    return cluster, BACKENDS[name].introduction(found)


def shrink(
    cluster: Cluster, settings: Mapping[str, Any], failure: HostsFailed
) -> tuple[Cluster, dict[str, Any]]:
    """The cluster and the settings without hosts that failed; that failure where nothing that was
    asked for can be had without them."""
    smaller = cluster.without(failure.hosts)
    profile = {n: blocks for n, blocks in settings["profile"].items() if int(n) <= smaller.ranks}
    ranks = sorted({min(n, smaller.ranks) for n in settings["ranks"]})
    if settings["profile"]:
        ranks = [n for n in ranks if str(n) in profile]
    if smaller.ranks < 2 or not ranks or (cluster.grid and smaller.ranks < cluster.ranks):
        raise failure
    return smaller, {**settings, "ranks": ranks, "profile": profile}


def write_cluster(path: Path, cluster: Cluster, settings: Mapping[str, Any]) -> None:
    """Keep the cluster and the settings of the search, for every later stage."""
    content = {"cluster": dataclasses.asdict(cluster), "settings": dict(settings)}
    write_whole(path, json.dumps(content, indent=1) + "\n")


def read_cluster(path: Path) -> tuple[Cluster, dict[str, Any]]:
    """Read what ``write_cluster`` wrote; UserError if configure never ran."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        raw = content["cluster"]
        tree = raw.pop("topology")
        topology = Topology(
            tuple(tree["hosts"]), tuple(tree["switches"]), tuple(Link(**x) for x in tree["links"])
        )
        hosts = tuple(Host(**host) for host in raw.pop("hosts"))
        grid = tuple(raw.pop("grid", ()))
        return Cluster(topology=topology, hosts=hosts, grid=grid, **raw), content["settings"]
    except FileNotFoundError as error:
        raise UserError("no cluster is configured here: run ./configure first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: run ./configure again") from error
