"""The schedule model (Vadhiyar, Fagg and Dongarra, section 4.3): calls in virtual time.

probes/model/simulate.c runs the bodies themselves among ranks, processors, ports and TCP
connections that exist in virtual time only. What they cost is taken from the measured parameters of
messages (search/measure/network.py), and adjusted until these come out of it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from search.catalogue.algorithm import Variant
from search.cluster.backends import shares_processors
from search.cluster.hosts import Cluster, dilation_at
from search.cluster.netns import BURST
from search.cluster.topology import FULL_FRAME, PAYLOAD_SHARE, Node, flatten
from search.errors import EnvironmentFailure
from search.measure.network import MessageTimes, Network
from search.results.samples import TIMEOUT, Interval, Sample

WARMUPS, CALLS = 4, 4
"""Of a prediction: TCP's windows are what earlier calls left."""
FITS, DAMPING = 4, 0.7
"""So often costs are fitted where processors are shared, work each time by so much of what is
missing."""
NO_CABLE = 1e15
"""Bytes a second of the top's cable, which nothing crosses."""
BUFFERS = tuple(1 << power for power in range(13, 22))
"""Bytes that a port may hold, where nobody says how many it does."""


@dataclass(frozen=True)
class Cost:
    """Of a message of so many bytes, in seconds; see struct cost in
    probes/model/virtual_ranks.h."""

    bytes: int
    send: float
    receive: float
    latency: float
    mode: str
    first: int
    middle: float
    spike: float
    gaps: float
    beside: float = 0.0

    @property
    def line(self) -> str:
        """As the simulator takes it."""
        mode = "delivered" if self.mode == "blocking" else self.mode
        return (
            f"cost {self.bytes} {self.send:.9g} {self.receive:.9g} {self.latency:.9g} {mode} "
            f"{self.first} {self.middle:.9g} {self.spike:.9g} {self.gaps:.9g} {self.beside:.9g}"
        )


@dataclass(frozen=True)
class World:
    """What the simulator is told of a cluster. ``links`` are, parents first, the parent and the
    rate in bytes a second of each node; ``buffer`` is bytes a port holds, 0 any number; ``wake`` is
    seconds of work before a rank that waited goes on; ``timeout`` is TCP's shortest in
    seconds; ``dilation`` the cluster's, which small blocks do without."""

    links: tuple[tuple[int, float], ...]
    ranks: tuple[tuple[int, str], ...]
    costs: tuple[Cost, ...]
    buffer: int
    burst: int
    copy: float
    buffered: float
    processors: int
    wake: float = 0.0
    timeout: float = TIMEOUT
    dilation: int = 1

    @property
    def lines(self) -> list[str]:
        """As the simulator takes them."""
        return [
            *(
                f"node {parent} {rate:.9g} {self.buffer} {self.burst}"
                for parent, rate in self.links
            ),
            *(f"rank {node} {host}" for node, host in self.ranks),
            *(cost.line for cost in self.costs),
            f"copy {self.copy:.9g}",
            f"buffered {self.buffered:.9g}",
            f"processors {self.processors}",
            f"wake {self.wake:.9g}",
            f"timeout {self.timeout:.9g}",
        ]


class Simulator:
    """Predicts calls on one cluster. A context manager: its process ends with it."""

    def __init__(self, program: Path, world: World) -> None:
        """``program`` is probes/model/simulate.c around all bodies."""
        self.world = world
        self._faster = 1
        try:
            self._process = subprocess.Popen(
                [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise EnvironmentFailure(f"cannot run {program}: {error.strerror}") from error
        self._say(*world.lines)

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()

    def predict(self, variant: Variant, block: int, lossless: bool = False) -> Sample | None:
        """Calls of a variant with ``block`` bytes to each peer, as the measuring job would have
        timed them; None if it cannot serve there. ``lossless``: as if ports held everything."""
        self._be_faster(self.world.dilation // dilation_at(block, self.world.dilation))
        return self._sample(f"predict {variant.label} {block} {WARMUPS} {CALLS}", lossless)

    def ask(self, request: str) -> Mapping[str, Any]:
        """Put one request, as probes/model/simulate.c has them."""
        self._say(request)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise EnvironmentFailure(f"the simulator ended at {request!r}")
        return dict(json.loads(line))

    def _be_faster(self, times: int) -> None:
        if times != self._faster:
            self.ask(f"faster {times}")
            self._faster = times

    def _sample(self, request: str, lossless: bool = False) -> Sample | None:
        if lossless:
            self.ask("lossless 1")
        answer = self.ask(request)
        if lossless:
            self.ask("lossless 0")
        if "error" in answer:
            return None
        resent = ((0, answer["resent"]),) if answer["resent"] else ()
        timeout = self.world.timeout / self._faster
        return Sample(tuple(answer["seconds"]), resent, answer["timeouts"], timeout=timeout)

    def _say(self, *lines: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines))
            self._process.stdin.flush()
        except OSError as error:
            raise EnvironmentFailure("the simulator ended") from error


def calibrated(program: Path, cluster: Cluster, network: Network) -> World:
    """One in which messages take what was measured, and where the switches' buffers are not known
    bursts lose what was lost."""
    world = fitted(program, make_world(cluster, network), network)
    return world if world.buffer else _with_buffer(program, world, network)


def make_world(cluster: Cluster, network: Network) -> World:
    """The cluster as it stands, with costs as they were measured, and no latency."""
    name_of = cluster.topology.names.of
    hosts = [name_of(host) for host in cluster.host_of_rank()]
    payload = _payload(hosts, network)
    fastest = max(payload.values(), default=1e9)
    nodes = flatten(cluster.topology)
    places = {name_of(node.host or ""): place for place, node in enumerate(nodes)}

    def rate(node: Node) -> float:
        seen = payload.get(name_of(node.host or ""), fastest) / PAYLOAD_SHARE
        return node.mbit * 1e6 / 8 if node.mbit else seen

    spiked = [p for p in network.messages if p.mode == "immediate" and p.mid_interval]
    return World(
        ((-1, NO_CABLE), *((node.parent, rate(node)) for node in nodes[1:])),
        tuple((places[host], host) for host in hosts),
        tuple(_cost(message, network) for message in network.messages),
        cluster.buffer,
        BURST if cluster.buffer else 0,
        network.copies[-1].together.median,
        max((p.initial_interval * p.bytes for p in spiked), default=1 << 17),
        len(os.sched_getaffinity(0)) if shares_processors(cluster) else 0,
        timeout=cluster.timeout,
        dilation=cluster.dilation,
    )


def _cost(message: MessageTimes, network: Network) -> Cost:
    """Of one size, as it was measured, without latency. Where hosts share processors a message is
    no more work than its ``work``, less of what answers it; what is beyond a send and a receive
    alone is done beside."""
    send, receive = message.o_s.median, message.o_r.median
    share, beside = 1.0, 0.0
    if message.work:
        answer = 0.0 if message.mode == "immediate" else network.messages[0].work
        work = max(0.0, message.work - answer)
        share = min(1.0, work / (send + receive))
        beside = max(0.0, work - send - receive)
    return Cost(
        message.bytes,
        share * send,
        share * receive,
        0.0,
        message.mode,
        message.initial_interval,
        share * message.o_s_mid,
        share * message.o_s_spike,
        message.mid_interval,
        beside,
    )


def _payload(hosts: Sequence[str], network: Network) -> dict[str, float]:
    """Bytes of payload a second that each host was seen to send or receive."""
    found: dict[str, float] = {}
    for host, rate in zip(hosts, network.rates):
        found[host] = max(rate, found.get(host, 0.0))
    return found


def fitted(program: Path, world: World, network: Network) -> World:
    """Costs with which messages take in the model what they took.

    What is missing of a message alone is latency; what is too much has been counted on both sides
    at a time, and is taken from the receiver's. Hosts that share processors keep each other from
    them, which no message alone shows. There, up to full frames, exchanges of all with all, in
    which a rank finds several messages when it wakes, tell what one is at work; those with
    neighbours what it is to wake.
    """
    for _ in range(FITS if world.processors else 1):
        with Simulator(program, world) as simulator:
            fits = [_fit(simulator, *pair) for pair in zip(world.costs, network.messages)]
        wakes = [wake for _, wake in fits if wake is not None]
        wake = max(0.0, world.wake + statistics.median(wakes or [0.0]))
        world = replace(world, costs=tuple(cost for cost, _ in fits), wake=wake)
    return world


def _fit(simulator: Simulator, cost: Cost, message: MessageTimes) -> tuple[Cost, float | None]:
    """A cost that fits better; and how many seconds more it is to wake, where one can tell."""
    world, size = simulator.world, message.bytes
    ranks = len(world.ranks)

    def late(request: str, measured: Interval) -> float:
        seconds: list[float] = simulator.ask(request)["seconds"]
        return measured.median - statistics.median(seconds)

    latency = cost.latency + late(f"pingpong 0 {ranks - 1} {size} 3", message.one_way)
    if not (world.processors and size <= FULL_FRAME):
        receive = max(0.0, cost.receive + min(0.0, latency))
        return replace(cost, receive=receive, latency=max(0.0, latency)), None
    share = DAMPING * world.processors / ranks
    among = share * late(f"crowd {size} 2 3", message.all_with_all) / (ranks - 1)
    alone = share * late(f"neighbours {size} 4 3", message.all_at_once)
    receive = max(0.0, cost.receive + among)
    return replace(cost, receive=receive, latency=max(0.0, latency)), alone - among


def _with_buffer(program: Path, world: World, network: Network) -> World:
    """Ports that lose about as much of bursts as was lost; any number of bytes if nothing was."""
    if not any(burst.resent for burst in network.bursts):
        return world

    def error(buffer: int) -> float:
        total = 0.0
        with Simulator(program, replace(world, buffer=buffer)) as simulator:
            for burst in network.bursts:
                answer = simulator.ask(f"burst {burst.senders} {burst.bytes} 4")
                total += abs(answer["resent"] / 4 - burst.resent)
        return total

    return replace(world, buffer=min(BUFFERS, key=error))
