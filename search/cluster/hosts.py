"""The cluster: hosts with slots, the switch tree, how ranks are placed and started."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from search.catalogue.collective import EVERY_PAIR
from search.cluster.placement import Placement, ranges, ranks_at
from search.cluster.topology import FULL_FRAME, Topology, bandwidth_bound, planned
from search.results.samples import TIMEOUT
from search.results.workload import Team, Workload

ORDERS = ("switch", "interleaved", "file")


@dataclass(frozen=True)
class Host:
    """A host and how many ranks it takes."""

    name: str
    slots: int


@dataclass(frozen=True)
class Cluster:
    """Every rank has a host: ``hosts`` in the order in which ranks fill them, ``ranks`` in all.

    ``backend`` names the file of backends/ that knows how jobs are started there; ``buffer`` is the
    port buffer of emulated switches in bytes. ``grid`` has the rows and columns of a process grid,
    if its communicators are what is tuned. Of an emulated cluster ``dilation`` says by what the
    speeds of all its links were divided: so many times slower time passes there, but for small
    blocks (see ``at``).
    """

    backend: str
    hosts: tuple[Host, ...]
    ranks: int
    topology: Topology
    buffer: int = 0
    grid: tuple[int, ...] = ()
    dilation: int = 1

    @property
    def timeout(self) -> float:
        """Seconds of TCP's shortest retransmission time-out there."""
        return TIMEOUT * self.dilation

    def dilated(self, divisor: int) -> Cluster:
        """The cluster with links that are so many times slower than as it was described."""
        share = self.dilation / divisor
        links = (
            dataclasses.replace(link, mbit=link.mbit and link.mbit * share)
            for link in self.topology.links
        )
        tree = dataclasses.replace(self.topology, links=tuple(links))
        return dataclasses.replace(self, topology=tree, dilation=divisor)

    def at(self, block: int) -> Cluster:
        """The cluster as it is while calls with ``block`` bytes to each peer are timed."""
        return self.dilated(dilation_at(block, self.dilation))

    def host_of_rank(self) -> list[str]:
        """The host of each rank: each host takes its slots of consecutive ranks."""
        names = [host.name for host in self.hosts for _ in range(host.slots)]
        return names[: self.ranks]

    @property
    def slowest(self) -> float | None:
        """The speed of the slowest cable in Mbit/s, as far as the topology has any."""
        return min((link.mbit for link in self.topology.links if link.mbit), default=None)

    @property
    def follows_switches(self) -> bool:
        """Whether its hosts are in the order of the tree, switch after switch."""
        return [*self.hosts] == ordered(self.hosts, self.topology, "switch")

    def speeds(self) -> dict[str, float | None]:
        """The speed of each host's cable in Mbit/s, as far as the topology has one, by host."""
        name_of = self.topology.names.of
        mbit = {name_of(link.lower): link.mbit for link in self.topology.links}
        return {host: mbit.get(name_of(host)) for host in self.ranks_on()}

    def members(self, team: Team) -> Sequence[int]:
        """Its ranks of the job."""
        if not team.placement:
            return range(team.ranks)
        return ranks_at(team.placement, [(host.name, host.slots) for host in self.hosts])

    def hosts_of(self, team: Team) -> list[str]:
        """The host of each of its ranks."""
        names = self.host_of_rank()
        return [names[rank] for rank in self.members(team)]

    def members_text(self, team: Team) -> str:
        """The same, as the measuring job takes it."""
        return ranges(self.members(team)) if team.placement else str(team.ranks)

    def communicators(self, team: Team) -> list[list[Sequence[int]]]:
        """What calls of a team are timed on, as lists of ranks: all rows of the grid, or columns,
        at once, and where they are alike first the rows, then the columns; what is neither is the
        team itself."""
        if team.placement:
            return [[self.members(team)]]
        rows, columns = self.grid or (0, 0)
        by_row = [range(row * columns, (row + 1) * columns) for row in range(rows)]
        by_column = [range(column, rows * columns, columns) for column in range(columns)]
        sides: list[list[Sequence[int]]] = [[*by_row], [*by_column]]
        found = [alike for alike in sides if alike and len(alike[0]) == team.ranks]
        return found or [[self.members(team)]]

    def each(self, team: Team) -> int:
        """Ranks of its communicator on each of several hosts; 1 if hosts differ."""
        hosts = [self._on(members) for alike in self.communicators(team) for members in alike]
        counts = {count for on in hosts for count in on.values()}
        return counts.pop() if len(counts) == 1 and all(len(on) > 1 for on in hosts) else 1

    def placement(self, team: Team) -> Placement:
        """How the ranks lie of a communicator of a team."""
        on = self._on(self.communicators(team)[0][0])
        each = {*on.values()}
        bound = bandwidth_bound(planned(self.dilated(1).topology), [on], block=1, share=1.0)
        load = round(1e9 * (bound or 0.0), 3)
        return Placement(team.ranks, len(on), each.pop() if len(each) == 1 else 0, load)

    def limit(self, workload: Workload, across: str = EVERY_PAIR) -> float | None:
        """Seconds below which no call can be: an all-to-all, unless something else goes ``across``
        cables."""
        block = workload.block
        tree = self.at(block).topology
        limits = [
            bandwidth_bound(tree, [self._on(members) for members in alike], block, across)
            for alike in self.communicators(workload.team)
        ]
        return None if None in limits else sum(limit or 0.0 for limit in limits)

    def sending(self, count: float) -> float:
        """Seconds that no host needs less than to send so many bytes; 0 if a link's speed is not
        known."""
        speeds = [*self.speeds().values()]
        if not speeds or None in speeds:
            return 0.0
        return count * 8 / (max(speed or 0.0 for speed in speeds) * 1e6)

    def ranks_on(self) -> dict[str, int]:
        """How many ranks each host has."""
        return self._on(range(self.ranks))

    def without(self, names: Iterable[str]) -> Cluster:
        """The cluster without some hosts, with as many ranks as the others can take."""
        hosts = tuple(host for host in self.hosts if host.name not in set(names))
        ranks = min(self.ranks, sum(host.slots for host in hosts))
        return dataclasses.replace(self, hosts=hosts, ranks=ranks)

    def _on(self, members: Iterable[int]) -> dict[str, int]:
        """How many of some ranks each host has that has any."""
        names = self.host_of_rank()
        return dict(Counter(names[rank] for rank in members))


def dilation_at(block: int, dilation: int) -> int:
    """By what the speeds of a cluster's links are divided while calls with ``block`` bytes to each
    peer are timed. Those in one frame are a matter of processors, not of wires: on slower ones
    headers would count for more than they do, and fewer messages would seem better."""
    return 1 if block <= FULL_FRAME else dilation


def ordered(hosts: Sequence[Host], topology: Topology, order: str) -> list[Host]:
    """Order hosts: switch after switch, one from each switch in turn, or as they came."""
    if order == "file":
        return list(hosts)
    name_of = topology.names.of
    by_name = {name_of(host.name): host for host in hosts}
    by_switch: dict[str, list[Host]] = {switch: [] for switch in topology.switches}
    for link in topology.links:
        host = by_name.get(name_of(link.lower))
        if host and link.lower not in by_switch:
            by_switch[link.upper].append(host)
    groups = list(by_switch.values())
    if order == "switch":
        return [host for group in groups for host in group]
    longest = max(len(group) for group in groups)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]


def wanted_ranks(options: Any) -> int:
    """How many ranks the options ask for; 0: they do not say."""
    return math.prod(options.grid) if options.grid else max(options.np or [0])
