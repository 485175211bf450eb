"""The schedule model (Vadhiyar, Fagg and Dongarra, section 4.3): calls in virtual time.

probes/model/simulate.c runs the bodies themselves among ranks, processors, ports and TCP
connections that exist in virtual time only. What they cost is taken from the measured parameters of
messages (search/measure/points.py), and adjusted until these come out of it again.
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

from search.algorithm import Variant
from search.cluster.hostlist import short_name
from search.cluster.hosts import Cluster
from search.cluster.netns import BURST
from search.cluster.topology import PAYLOAD_SHARE, Node, flatten
from search.errors import EnvironmentFailure
from search.measure.points import Point, Points
from search.measure.samples import Sample

WARMUPS, CALLS = 4, 4
"""Of a prediction: TCP's windows are what earlier calls left."""
FITS, DAMPING = 4, 0.7
"""So often work is fitted, each time by so much of what is missing."""
SEGMENT = 1448
"""Bytes of payload in a full frame."""
NO_CABLE = 1e15
"""Bytes a second of the top's cable, which nothing crosses."""
ROOMS = tuple(1 << power for power in range(13, 22))
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
    rate in bytes a second of each node; ``room`` is bytes a port holds, 0 any number."""

    links: tuple[tuple[int, float], ...]
    ranks: tuple[tuple[int, str], ...]
    costs: tuple[Cost, ...]
    room: int
    burst: int
    copy: float
    buffered: float
    processors: int

    @property
    def lines(self) -> list[str]:
        """As the simulator takes them."""
        return [
            *(f"node {parent} {rate:.9g} {self.room} {self.burst}" for parent, rate in self.links),
            *(f"rank {node} {host}" for node, host in self.ranks),
            *(cost.line for cost in self.costs),
            f"copy {self.copy:.9g}",
            f"buffered {self.buffered:.9g}",
            f"processors {self.processors}",
        ]


class Simulator:
    """Predicts calls on one cluster. A context manager: its process ends with it."""

    def __init__(self, program: Path, world: World) -> None:
        """``program`` is probes/model/simulate.c around all bodies."""
        self.world = world
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
        return self._sample(f"predict {variant.label} {block} {WARMUPS} {CALLS}", lossless)

    def broadcast_seconds(self, tree: str, size: int, segment: int) -> float:
        """The median of broadcasts of ``size`` bytes in segments along a tree."""
        sample = self._sample(f"broadcast {tree} {size} {segment} {WARMUPS} {CALLS}")
        if sample is None:
            raise EnvironmentFailure(f"the simulator knows no broadcast along {tree!r}")
        return sample.seconds

    def ask(self, request: str) -> Mapping[str, Any]:
        """Put one request, as probes/model/simulate.c has them."""
        self._say(request)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise EnvironmentFailure(f"the simulator ended at {request!r}")
        return dict(json.loads(line))

    def _sample(self, request: str, lossless: bool = False) -> Sample | None:
        if lossless:
            self.ask("lossless 1")
        answer = self.ask(request)
        if lossless:
            self.ask("lossless 0")
        if "error" in answer:
            return None
        resent = ((0, answer["resent"]),) if answer["resent"] else ()
        return Sample(tuple(answer["seconds"]), resent, answer["timeouts"])

    def _say(self, *lines: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines))
            self._process.stdin.flush()
        except OSError as error:
            raise EnvironmentFailure("the simulator ended") from error


def calibrated(program: Path, cluster: Cluster, points: Points) -> Simulator:
    """A simulator in which single messages take what was measured, and where the switches' buffers
    are not known bursts lose what was lost."""
    world = _with_latencies(program, make_world(cluster, points), points)
    if world.processors:
        world = _with_work(program, world, points)
    if not world.room:
        world = _with_room(program, world, points)
    return Simulator(program, world)


def make_world(cluster: Cluster, points: Points) -> World:
    """The cluster as it stands, with costs as they were measured, and no latency."""
    is_emulated = cluster.kind == "emulated"
    hosts = [short_name(host) for host in cluster.host_of_rank()]
    payload = _payload(hosts, points)
    fastest = max(payload.values(), default=1e9)
    nodes = flatten(cluster.topology)
    places = {short_name(node.host or ""): place for place, node in enumerate(nodes)}

    def rate(node: Node) -> float:
        seen = payload.get(short_name(node.host or ""), fastest) / PAYLOAD_SHARE
        return node.mbit * 1e6 / 8 if node.mbit else seen

    spiked = [p for p in points.sizes if p.mode == "immediate" and p.mid_interval]
    return World(
        ((-1, NO_CABLE), *((node.parent, rate(node)) for node in nodes[1:])),
        tuple((places[host], host) for host in hosts),
        tuple(_cost(point, points) for point in points.sizes),
        cluster.buffer,
        BURST if is_emulated else 0,
        points.copies[-1].together.median,
        max((p.initial_interval * p.bytes for p in spiked), default=1 << 17),
        (os.cpu_count() or 1) if is_emulated else 0,
    )


def _cost(point: Point, points: Points) -> Cost:
    """Of one size, as it was measured, without latency. Where hosts share processors a message is
    no more work than its ``work``, less of what answers it; what is beyond a send and a receive
    alone is done beside."""
    send, receive = point.os_start.median, point.or_.median
    share, beside = 1.0, 0.0
    if point.work:
        answer = 0.0 if point.mode == "immediate" else points.sizes[0].work
        work = max(0.0, point.work - answer)
        share = min(1.0, work / (send + receive))
        beside = max(0.0, work - send - receive)
    return Cost(
        point.bytes,
        share * send,
        share * receive,
        0.0,
        point.mode,
        point.initial_interval,
        share * point.os_mid,
        share * point.os_spike,
        point.mid_interval,
        beside,
    )


def _payload(hosts: Sequence[str], points: Points) -> dict[str, float]:
    """Bytes of payload a second that each host was seen to send or receive."""
    found: dict[str, float] = {}
    for host, rate in zip(hosts, points.rates):
        found[host] = max(rate, found.get(host, 0.0))
    return found


def _with_latencies(program: Path, world: World, points: Points) -> World:
    """Costs with which a message alone takes what it took: what is missing is latency; what is too
    much has been counted on both sides at a time, and is taken from the receiver's."""
    pair = f"0 {len(world.ranks) - 1}"
    costs = []
    with Simulator(program, world) as simulator:
        for cost, point in zip(world.costs, points.sizes):
            seconds = simulator.ask(f"pingpong {pair} {point.bytes} 2")["seconds"][-1]
            missing = point.os_g_or.median - seconds
            receive = max(0.0, cost.receive + min(0.0, missing))
            costs.append(replace(cost, receive=receive, latency=max(0.0, missing)))
    return replace(world, costs=tuple(costs))


def _with_work(program: Path, world: World, points: Points) -> World:
    """Costs with which exchanges of all ranks at once take what they took, up to full frames: where
    hosts share processors they keep each other from them, which no single message shows."""
    for _ in range(FITS):
        costs = list(world.costs)
        with Simulator(program, world) as simulator:
            for i, point in enumerate(points.sizes):
                if point.bytes <= SEGMENT:
                    seconds = simulator.ask(f"neighbours {point.bytes} 4 5")["seconds"]
                    missing = point.all_at_once.median - statistics.median(seconds)
                    work = DAMPING * missing * world.processors / len(world.ranks)
                    costs[i] = replace(costs[i], receive=max(0.0, costs[i].receive + work))
        world = replace(world, costs=tuple(costs))
    return world


def _with_room(program: Path, world: World, points: Points) -> World:
    """Ports that lose about as much of bursts as was lost; any number of bytes if nothing was."""
    if not any(burst.resent for burst in points.bursts):
        return world

    def error(room: int) -> float:
        total = 0.0
        with Simulator(program, replace(world, room=room)) as simulator:
            for burst in points.bursts:
                answer = simulator.ask(f"burst {burst.senders} {burst.bytes} 4")
                total += abs(answer["resent"] / 4 - burst.resent)
        return total

    return replace(world, room=min(ROOMS, key=error))
