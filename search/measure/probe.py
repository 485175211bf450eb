"""The probe stage: what the network itself does, before any all-to-all is timed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search.cluster.backends import backend_of, shares_processors
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.topology import PAYLOAD_SHARE
from search.cluster.watch import processor_times
from search.errors import summarised
from search.files import read_json_if_whole, write_json
from search.measure.messages import BURST_BYTES, measure_network, measure_rates
from search.measure.network import Network, changes
from search.measure.null_tests import NullTests
from search.sizes import size_text

PINGPONGS = 50
JUMP_PINGPONGS = ((4 << 10, 60), (1 << 62, 15))
"""Ping-pongs with messages up to each size, of which the fastest counts."""
JUMP = 0.15
"""A protocol matters if it makes a message take so much longer."""
LONGEST_JUMP = 0.02
SLOW, FAST = 0.6, 1.2
"""Of a link's speed: what a host that has less, or more, has another one."""
LEAST_TO_COMPARE = 3
"""Hosts of which most can be told from one."""


@dataclass(frozen=True)
class Machine:
    """Point-to-point and barrier times in seconds.

    ``clock_error`` is how far global clocks are apart, ``skew`` how far ranks are when they leave a
    barrier; ``thresholds`` are the largest messages, in bytes, before a jump in their time.
    ``null_tests`` are those of an emulated cluster of several hosts, on which time passes
    ``dilation`` times slower. ``network`` is None where there is one rank, or no time for them.
    """

    latency: float
    latency_p99: float
    barrier: float
    clock_error: float = 0.0
    skew: float = 0.0
    thresholds: tuple[int, ...] = ()
    null_tests: NullTests | None = None
    dilation: int = 1
    network: Network | None = None


def probe(
    cluster: Cluster, job: Job, say: Callable[[str], None], effort: str | None = "normal"
) -> Machine:
    """Measure; the parameters of models with so much ``effort``, or, None, not at all."""
    latency, p99 = 0.0, 0.0
    if cluster.ranks > 1:
        job.ask(f"pingpong 0 {cluster.ranks - 1} 8 20")
        times = job.ask(f"pingpong 0 {cluster.ranks - 1} 8 {PINGPONGS}")["seconds"]
        latency, p99 = statistics.median(times), sorted(times)[-1 - PINGPONGS // 100]
    barrier = statistics.median(job.ask("barrier library 20")["seconds"])
    clocks = job.ask("clocks 20")
    jumps = _thresholds(cluster, job)
    machine = Machine(latency, p99, barrier, clocks["error"], clocks["skew"], jumps)
    say(
        f"one-way latency {latency * 1e6:.0f} us (p99 {p99 * 1e6:.0f}), "
        f"barrier {barrier * 1e6:.0f} us, exit skew {machine.skew * 1e6:.0f} us; "
        f"clocks agree within {machine.clock_error * 1e6:.0f} us"
    )
    if jumps:
        say(f"protocol switches after {', '.join(map(size_text, jumps))}")
    if job.phases and len(cluster.ranks_on()) > 1:
        gap = job.over_bound
        share = "as fast as can be" if gap == 1 else f"{gap:.2f} times as long as can be"
        say(f"contention-free in {job.phases} phases, {share}")
    machine = replace(machine, dilation=cluster.dilation)
    if cluster.ranks > 1 and effort:
        machine = replace(machine, network=_network(cluster, job, jumps, say, effort))
    return machine


def _network(
    cluster: Cluster, job: Job, jumps: tuple[int, ...], say: Callable[[str], None], effort: str
) -> Network:
    busy = _busy_seconds if shares_processors(cluster) else None
    hosts = len(cluster.ranks_on())
    network = measure_network(job.ask, cluster.ranks, jumps, hosts, cluster.slowest, busy, effort)
    modes = [f"{message.mode} {size_text(message.bytes)}" for message in changes(network.messages)]
    say(
        f"a message takes {network.alpha_uni * 1e6:.0f} us and {network.beta_uni * 1e9:.2f} ns a "
        f"byte, both ways at once {network.alpha * 1e6:.0f} us and {network.beta * 1e9:.2f} ns; "
        f"sends are {', '.join(modes)}"
    )
    for trouble in wrong_speeds(cluster, network.rates):
        say(trouble)
    for size in BURST_BYTES if network.bursts else ():
        senders = network.quiet_senders(size)
        many = f"{senders} rank{'s' * (senders != 1)}" if senders >= 0 else "all ranks"
        say(f"{many} can send {size_text(size)} to one at once without a loss")
    return network


def rates_now(cluster: Cluster, job: Job) -> list[tuple[float, ...]]:
    """Bytes of payload a second from each rank to the next, one after the other, in several
    passes."""
    return measure_rates(job.ask, cluster.ranks, cluster.slowest)


def wrong_speeds(cluster: Cluster, rates: Sequence[float]) -> list[str]:
    """Where the topology says another speed than was measured, or says none and a host is slower
    than most: schedules, limits and the model rest on it. ``rates`` are bytes a second that each
    rank moved, one after the other. Of a real cluster with one rank on each host: several share a
    cable."""
    hosts = cluster.host_of_rank()
    if backend_of(cluster.backend).on_this_machine or len(set(hosts)) < len(hosts):
        return []
    seen = {host: rate * 8e-6 / PAYLOAD_SHARE for host, rate in zip(hosts, rates)}
    wrong = {
        host: (mbit, seen[host])
        for host, mbit in cluster.speeds().items()
        if mbit and not SLOW * mbit < seen[host] < FAST * mbit
    }
    if not wrong:
        return _slower_than_most(cluster, seen)
    told, found = next(iter(wrong.values()))
    return [
        f"host {summarised(list(wrong))} moves {found:.0f} Mbit/s, the topology says {told:g}: "
        "LinkSpeed= is wrong, a trunk is narrower than it says, or MPI uses another network "
        "(MPICH: FI_TCP_IFACE=, UCX_NET_DEVICES=)"
    ]


def _slower_than_most(cluster: Cluster, seen: Mapping[str, float]) -> list[str]:
    """Which hosts, of several that the topology gives no speed, are far below most; ``seen`` has
    Mbit/s."""
    told = cluster.speeds()
    usual = statistics.median_high(seen.values())
    slow = [host for host in seen if told[host] is None and seen[host] < SLOW * usual]
    if not slow or len(seen) < LEAST_TO_COMPARE:
        return []
    return [
        f"host {summarised(slow)} moves {seen[slow[0]]:.0f} Mbit/s to the next, most hosts "
        f"{usual:.0f}: a cable, port or card at a lower speed? Else LinkSpeed= in the topology "
        "tells the planner"
    ]


def _thresholds(cluster: Cluster, job: Job) -> tuple[int, ...]:
    """Where the time of a message between the farthest ranks jumps."""
    if cluster.ranks < 2:
        return ()

    def one_way(size: int) -> float:
        count = next(count for most, count in JUMP_PINGPONGS if size <= most)
        request = f"pingpong 0 {cluster.ranks - 1} {size} {count}"
        return float(min(job.ask(request)["seconds"]))

    return find_jumps(one_way)


def find_jumps(time: Callable[[int], float]) -> tuple[int, ...]:
    """The largest sizes before ``time`` (seconds of so many bytes) jumps by more than JUMP.

    Between two powers of two it may grow as it does before or behind them; what is beyond is a
    jump, which bisection finds. The library changes its protocol there, from eager to rendezvous
    for one. Sizes end where a message takes LONGEST_JUMP seconds.
    """
    sizes = [1 << power for power in range(5, 19)]
    times = []
    for size in sizes:
        times.append(time(size))
        if times[-1] > LONGEST_JUMP:
            break
    slopes = [(b - a) / n for n, a, b in zip(sizes, times, times[1:])]
    found = []
    for i, slope in enumerate(slopes):
        usual = max(0.0, *slopes[max(0, i - 1) : i], *slopes[i + 1 : i + 2])
        excess = (slope - usual) * sizes[i]
        if excess < JUMP * times[i]:
            continue
        low, high = sizes[i], sizes[i + 1]
        while high - low > 1:
            middle = (low + high) // 2
            beyond = time(middle) - times[i] - usual * (middle - sizes[i])
            low, high = (low, middle) if beyond > excess / 2 else (middle, high)
        if time(low + 1) - time(low) > excess / 2:  # once more: it was no accident
            found.append(low)
    return tuple(found)


def _busy_seconds() -> float:
    """That all processors have worked so far: all but idle and waiting for disks."""
    times = processor_times()
    return (sum(times) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")


def read_machine(path: Path) -> Machine | None:
    """What the probe wrote; None if it never ran."""
    return read_json_if_whole(path, Machine)


def write_machine(path: Path, machine: Machine) -> None:
    """Write build/machine.json."""
    write_json(path, machine)
