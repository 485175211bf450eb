"""The cluster: hosts with slots, the switch tree, how ranks are placed and started."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.cluster import slurm
from search.cluster.hostlist import Names, expand, short_name
from search.cluster.topology import FULL_FRAME, Link, Topology, alltoall_limit, single_switch
from search.cluster.topology_file import read_topology
from search.errors import HostsFailed, UserError
from search.files import write_whole
from search.results.samples import TIMEOUT

PLACEMENTS = ("switch", "interleaved", "file")
LAUNCHERS = ("hydra", "srun")
SLOT_WORDS = ("slots", "max_slots", "max-slots")
"""Of Open MPI's host files; the most there may be says nothing of how many are wanted."""
SMALLEST_BUFFER = 3000
"""Bytes: a port that cannot hold two frames passes nothing."""


@dataclass(frozen=True)
class Host:
    """A host and how many ranks it takes."""

    name: str
    slots: int


@dataclass(frozen=True)
class Cluster:
    """Every rank has a host: ``hosts`` in the order in which ranks fill them, ``ranks`` in all.

    ``kind`` is "emulated", "remote" (hosts of a list) or "local" (this machine);
    ``buffer`` is the port buffer of emulated switches in bytes. ``grid`` has the rows and columns
    of a process grid, if its communicators are what is tuned. Of an emulated cluster ``dilation``
    says by what the speeds of all its links were divided: so many times slower time passes there,
    but for small blocks (see ``at``).
    """

    kind: str
    hosts: tuple[Host, ...]
    ranks: int
    topology: Topology
    launcher: str = "hydra"
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
        return [*self.hosts] == place(self.hosts, self.topology, "switch")

    def speeds(self) -> dict[str, float | None]:
        """The speed of each host's cable in Mbit/s, as far as the topology has one, by host."""
        name_of = self.topology.names.of
        mbit = {name_of(link.lower): link.mbit for link in self.topology.links}
        return {host: mbit.get(name_of(host)) for host in self.ranks_on()}

    def communicators(self, ranks: int) -> list[list[range]]:
        """What calls on so many ranks are timed on, as lists of ranks: all rows of the grid, or
        columns, at once, and where they are alike first the rows, then the columns; what is neither
        is the first so many ranks."""
        rows, columns = self.grid or (0, 0)
        by_row = [range(row * columns, (row + 1) * columns) for row in range(rows)]
        by_column = [range(column, rows * columns, columns) for column in range(columns)]
        found = [alike for alike in (by_row, by_column) if alike and len(alike[0]) == ranks]
        return found or [[range(ranks)]]

    def each(self, ranks: int) -> int:
        """Ranks of a communicator of so many on each of several hosts; 1 if hosts differ."""
        hosts = [self._on(members) for alike in self.communicators(ranks) for members in alike]
        counts = {count for on in hosts for count in on.values()}
        return counts.pop() if len(counts) == 1 and all(len(on) > 1 for on in hosts) else 1

    def limit(self, ranks: int, block: int) -> float | None:
        """Seconds below which no all-to-all of ``block`` bytes to each peer can be on so many
        ranks."""
        tree = self.at(block).topology
        limits = [
            alltoall_limit(tree, [self._on(members) for members in alike], block)
            for alike in self.communicators(ranks)
        ]
        return None if None in limits else sum(limit or 0.0 for limit in limits)

    def sending(self, count: float) -> float:
        """Seconds that no host needs less than to send so many bytes; 0 if a link's speed is not
        known."""
        names = set(self.host_of_rank())
        speeds = [link.mbit for link in self.topology.links if link.lower in names]
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


def place(hosts: Sequence[Host], topology: Topology, placement: str) -> list[Host]:
    """Order hosts: switch after switch, one from each switch in turn, or as they came."""
    if placement == "file":
        return list(hosts)
    name_of = topology.names.of
    by_name = {name_of(host.name): host for host in hosts}
    by_switch: dict[str, list[Host]] = {switch: [] for switch in topology.switches}
    for link in topology.links:
        host = by_name.get(name_of(link.lower))
        if host and link.lower not in by_switch:
            by_switch[link.upper].append(host)
    groups = list(by_switch.values())
    if placement == "switch":
        return [host for group in groups for host in group]
    longest = max(len(group) for group in groups)
    return [group[i] for i in range(longest) for group in groups if i < len(group)]


def make_cluster(options: Any, environment: Mapping[str, str]) -> Cluster:
    """The cluster that the options (see __main__) describe; UserError where they cannot."""
    if options.emulate:
        kind, topology = "emulated", read_topology(Path(options.emulate))
        if any(link.mbit is None for link in topology.links):
            raise UserError(f"{options.emulate}: every switch needs a LinkSpeed= to be emulated")
        hosts = [Host(name, options.slots) for name in topology.hosts]
    else:
        kind, hosts = _real_hosts(options, environment)
        names = [host.name for host in hosts]
        topology = _real_topology(options, environment, names)
        name_of = topology.names.of
        known = {name_of(name) for name in topology.hosts}
        for name in names:
            if name_of(name) not in known:
                raise UserError(
                    f"{options.topology or slurm.SOURCE}: host {name} is missing: every host of "
                    "the job must hang off a switch"
                )
    slots = sum(host.slots for host in hosts)
    ranks = _wanted_ranks(options) or slots
    if ranks > slots:
        option = "--grid" if options.grid else "--np"
        raise UserError(f"{option}: {ranks} ranks are wanted, the hosts have {slots} slots in all")
    if options.buffer < SMALLEST_BUFFER:
        raise UserError(
            f"--emulate-buffer={options.buffer}: at least {SMALLEST_BUFFER} bytes are expected"
        )
    ordered = place(hosts, topology, options.placement)
    return Cluster(
        kind,
        tuple(ordered),
        ranks,
        topology,
        launcher_of(options, environment),
        options.buffer if options.emulate else 0,
        options.grid or (),
    )


def _real_topology(options: Any, environment: Mapping[str, str], names: Sequence[str]) -> Topology:
    """The tree of a file, else of the Slurm job, else one switch."""
    if options.topology:
        return read_topology(Path(options.topology))
    asks = launcher_of(options, environment) == "srun"
    return (slurm.job_topology(len(names)) if asks else None) or single_switch(names)


def launcher_of(options: Any, environment: Mapping[str, str]) -> str:
    """Who starts jobs: whom the options name, else srun in a Slurm job whose hosts it is to take,
    else Hydra."""
    if options.launcher:
        return str(options.launcher)
    has_hosts = options.emulate or options.hostfile
    in_job = environment.get("SLURM_JOB_NODELIST") and shutil.which("srun")
    return "srun" if in_job and not has_hosts else "hydra"


def tree_source(options: Any, cluster: Cluster) -> str:
    """Where the switch tree came from, for people."""
    if options.topology:
        return str(options.topology)
    if cluster.topology == single_switch([host.name for host in cluster.hosts]):
        return "one switch, since nothing says otherwise (--topology=FILE does)"
    return f"{slurm.SOURCE} of the Slurm job"


def _real_hosts(options: Any, environment: Mapping[str, str]) -> tuple[str, list[Host]]:
    if options.hostfile:
        return "remote", read_hostfile(Path(options.hostfile))
    launcher = launcher_of(options, environment)
    if environment.get("SLURM_JOB_NODELIST") and launcher == "srun":
        return "remote", slurm_hosts(environment)
    if launcher == "srun":
        raise UserError("--launcher=srun: no Slurm job here: run configure in salloc or sbatch")
    return "local", [
        Host(short_name(os.uname().nodename), _wanted_ranks(options) or os.cpu_count() or 1)
    ]


def _wanted_ranks(options: Any) -> int:
    """How many ranks the options ask for; 0: they do not say."""
    return math.prod(options.grid) if options.grid else max(options.np or [0])


def read_hostfile(path: Path) -> list[Host]:
    """Hosts and their slots, a line each: ``host:slots`` as Hydra has it, ``host slots=4`` as Open
    MPI has it, or ``host``; hosts may be a list such as ``n[1-4]``. ``#`` begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"cannot read host file {path}: {reason}") from error
    hosts: list[Host] = []
    known = Names()
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        names, colon, slots = words[0].partition(":")
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if key not in SLOT_WORDS or not equals or colon:
                raise UserError(
                    f"{where}: {word[:40]!r} found where slots=NUMBER or nothing is expected"
                )
            slots = value if key == "slots" else slots
        if not re.fullmatch(r"[1-9]\d{0,4}", slots or "1"):
            raise UserError(f"{where}: {slots[:40]!r} found where a number of slots is expected")
        for name in expand(names, where):
            twin = known.add(name)
            if twin:
                raise UserError(
                    f"{where}: host {name} is listed twice: use host:slots"
                    if twin.lower() == name.lower()
                    else f"{where}: {name} and {twin} may be one host: write both in full if they "
                    "are two, else one of them with host:slots"
                )
            hosts.append(Host(name, int(slots or 1)))
    if not hosts:
        raise UserError(f"{path}: no host found: lines such as node1:4 are expected")
    return hosts


def slurm_hosts(environment: Mapping[str, str]) -> list[Host]:
    """The hosts of a Slurm job, from SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE."""
    names = expand(environment["SLURM_JOB_NODELIST"], "SLURM_JOB_NODELIST")
    slots: list[int] = []
    text = environment.get("SLURM_TASKS_PER_NODE", f"1(x{len(names)})")
    for item in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:\(x(\d{1,6})\))?", item)
        if not match:
            raise UserError(f"SLURM_TASKS_PER_NODE: {item[:40]!r} is not like 2(x3)")
        slots += [int(match[1])] * int(match[2] or 1)
    if len(slots) != len(names):
        raise UserError(
            f"SLURM_TASKS_PER_NODE names {len(slots)} hosts, SLURM_JOB_NODELIST {len(names)}"
        )
    return [Host(name, count) for name, count in zip(names, slots)]


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
