"""The tree of switches, checked, and its bandwidth bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from search.catalogue.collective import EVERY_PAIR, crossing
from search.cluster.hostlist import Names
from search.errors import UserError

FULL_FRAME = 1448
"""Bytes of payload in a full frame."""
PAYLOAD_SHARE = FULL_FRAME / 1538
"""Payload of a full TCP segment over what its frame takes on the wire (MTU 1500,
timestamps, preamble, checksum and gap counted)."""

UNKNOWN_SPEED = 1
"""Of all cables, in a plan, where that of one is not known."""
FASTEST = 10**6
"""Mbit/s: in a plan no cable is faster, since it counts sums of speeds in ints."""


@dataclass(frozen=True)
class Link:
    """The full-duplex cable from a switch down to a host or another switch."""

    upper: str
    lower: str
    mbit: float | None


@dataclass(frozen=True)
class Topology:
    """A tree: every host hangs off exactly one switch, and reaches every other."""

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]

    @cached_property
    def names(self) -> Names:
        """By which names its hosts are known."""
        return Names(self.hosts)

    def hosts_below(self) -> dict[str, frozenset[str]]:
        """For every host and switch by name: the hosts at and below it."""
        lower: dict[str, list[str]] = {switch: [] for switch in self.switches}
        for link in self.links:
            lower[link.upper].append(link.lower)
        below: dict[str, frozenset[str]] = {host: frozenset([host]) for host in self.hosts}

        def visit(name: str) -> frozenset[str]:
            if name not in below:
                below[name] = frozenset().union(*(visit(child) for child in lower[name]))
            return below[name]

        for switch in self.switches:
            visit(switch)
        return below


@dataclass(frozen=True)
class Node:
    """A switch or host (then with its name) of a flattened tree; parents come first.

    ``speed`` is that of the cable to the parent in Mbit/s as the planner takes it, a whole number,
    ``mbit`` the same if it is known.
    """

    parent: int
    speed: int
    host: str | None
    mbit: float | None = None


def planned(topology: Topology) -> Topology:
    """The tree with the speeds with which the planner counts: whole numbers, of all cables 1 where
    that of one is not known."""
    known = [link.mbit for link in topology.links]
    speeds = [min(FASTEST, max(1, round(mbit))) if mbit else UNKNOWN_SPEED for mbit in known]
    if None in known:
        speeds = [UNKNOWN_SPEED] * len(speeds)
    links = (replace(link, mbit=speed) for link, speed in zip(topology.links, speeds))
    return replace(topology, links=tuple(links))


def flatten(topology: Topology) -> tuple[Node, ...]:
    """The tree as the planner takes it: the top first, every node after its parent."""
    below: dict[str, list[Link]] = {switch: [] for switch in topology.switches}
    for link in topology.links:
        below[link.upper].append(link)
    speeds = {link.lower: int(link.mbit or 0) for link in planned(topology).links}
    lowers = {link.lower for link in topology.links}
    top = next(switch for switch in topology.switches if switch not in lowers)
    nodes, places, waiting = [Node(-1, UNKNOWN_SPEED, None)], {top: 0}, [top]
    while waiting:
        upper = waiting.pop(0)
        for link in below[upper]:
            name = link.lower
            is_switch = name in below
            places[name] = len(nodes)
            nodes.append(Node(places[upper], speeds[name], None if is_switch else name, link.mbit))
            if is_switch:
                waiting.append(name)
    return tuple(nodes)


def single_switch(hosts: Sequence[str]) -> Topology:
    """What is assumed when nothing is known: all hosts on one switch of unknown speed."""
    return Topology(tuple(hosts), ("switch",), tuple(Link("switch", h, None) for h in hosts))


def bandwidth_bound(
    topology: Topology,
    communicators: Sequence[Mapping[str, int]],
    block: int,
    across: str = EVERY_PAIR,
    share: float = PAYLOAD_SHARE,
) -> float | None:
    """Seconds below which no call can be, or None if a link's speed is unknown.

    Each of the ``communicators``, all at work at once, maps hosts to ranks there; ``block`` is
    bytes to each peer, of which so many as ``across`` says (``Collective``) cross each link in
    either direction; ``share`` is the part of the wire's rate that payload can have (Faraj and
    Yuan, section 4.2).
    """
    name_of, below = topology.names.of, topology.hosts_below()
    placed = [{name_of(host): ranks for host, ranks in on.items()} for on in communicators]
    longest = 0.0
    for link in topology.links:
        load = 0.0
        for ranks_on in placed:
            inside = sum(ranks_on.get(name_of(host), 0) for host in below[link.lower])
            outside = sum(ranks_on.values()) - inside
            if inside and outside:
                load += crossing(across, inside, outside)
        if load and link.mbit is None:
            return None
        if load and link.mbit is not None:
            longest = max(longest, load * block * 8 / (link.mbit * 1e6 * share))
    return longest


@dataclass(frozen=True)
class SwitchLine:
    """What a source says of one switch; ``where`` is the place for errors."""

    where: str
    name: str
    nodes: tuple[str, ...]
    switches: tuple[str, ...]
    mbit: float | None


def build_tree(lines: Sequence[SwitchLine], source: str) -> Topology:
    """The tree of all switches; UserError with place and reason where it is none."""
    switches = {line.name: line for line in lines}
    if len(switches) < len(lines):
        twice = next(a for a in lines if switches[a.name] is not a)
        raise UserError(f"{switches[twice.name].where}: switch {twice.name} is defined twice")
    above: dict[str, str] = {}
    links: list[Link] = []
    for line in lines:
        for child in line.switches:
            if child not in switches:
                raise UserError(f"{line.where}: switch {child} is not defined in this file")
        for lower in line.nodes + line.switches:
            if lower in above:
                raise UserError(
                    f"{line.where}: {lower} hangs off {above[lower]} already: "
                    "each host and switch has one cable upwards"
                )
            if lower in line.nodes and lower in switches:
                raise UserError(f"{line.where}: {lower} names a switch and a host")
            above[lower] = line.name
            links.append(Link(line.name, lower, line.mbit))
    roots = [line for line in lines if line.name not in above]
    if not roots:
        raise UserError(f"{lines[0].where}: the switches form a cycle: a tree is expected")
    if len(roots) > 1:
        raise UserError(
            f"{roots[1].where}: switch {roots[1].name} is not connected with "
            f"{roots[0].name}: one tree is expected"
        )
    hosts = tuple(host for line in lines for host in line.nodes)
    _check_names(hosts, source)
    topology = Topology(hosts, tuple(switches), tuple(links))
    _check_reach(topology, roots[0], switches)
    return topology


def _check_names(hosts: Sequence[str], source: str) -> None:
    names = Names()
    for host in hosts:
        other = names.add(host)
        if other:
            raise UserError(
                f"{source}: {other} and {host} may be one host: write both in full if they are two"
            )


def _check_reach(topology: Topology, root: SwitchLine, switches: Mapping[str, SwitchLine]) -> None:
    """Every switch is reached from the root and has a host below it."""
    reached, waiting = set(), [root.name]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting += switches[name].switches
    for name, line in switches.items():
        if name not in reached:
            raise UserError(f"{line.where}: switch {name} is part of a cycle: a tree is expected")
    below = topology.hosts_below()
    for name, line in switches.items():
        if not below[name]:
            raise UserError(f"{line.where}: switch {name} has no host below it")
