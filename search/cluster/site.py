"""The cluster in use: its backend, its jobs, and what identifies it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from search.cluster.backends import backend_of
from search.cluster.health import Health
from search.cluster.hostlist import name_hash, short_name
from search.cluster.hosts import Cluster
from search.cluster.inventory import Inventory, differences, take_inventory
from search.cluster.job import Job, JobLost
from search.errors import EnvironmentFailure
from search.results.fingerprint import hash_of
from search.timeouts import USUAL, Timeouts
from search.toolchain import Toolchain, measured_sources

TRIES = 2
"""Of what needs a job that is lost."""
T = TypeVar("T")
NOT_THROUGH = (
    "all hosts answer, but messages of MPI do not get through: a firewall, a smaller MTU on the "
    "way, or an interface that other hosts do not reach (MPICH: FI_TCP_IFACE=, UCX_NET_DEVICES=)?"
)
MPI_SETTINGS = ("MPIR_", "MPICH_", "FI_", "UCX_", "HYDRA_")


class Site:
    """Context manager: between entry and exit jobs can be started on the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        tools: Toolchain,
        build: Path,
        say: Callable[[str], None] = lambda text: None,
        timeouts: Timeouts = USUAL,
    ) -> None:
        """``say`` is told in one line what the user should know of how jobs are started."""
        self.cluster, self.tools, self.build, self._say = cluster, tools, build, say
        self.timeouts = timeouts
        self.backend = backend_of(cluster.backend)(cluster, tools, build, say, timeouts)
        self._stack = ExitStack()
        self._started = False
        self._inventory: Inventory = {}
        hosts = list(cluster.ranks_on())
        self.health = Health(hosts, lambda: self.backend.ask("true"), timeouts.cable)

    def __enter__(self) -> Site:
        self._stack.enter_context(self.backend)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pace(self, block: int) -> float:
        """Let time pass as fast as it shall while calls with ``block`` bytes to each peer are
        timed; TCP's shortest retransmission time-out there, in seconds."""
        there = self.cluster.at(block)
        self.backend.dilate(there.dilation)
        return there.timeout

    def start_job(self, program: Path) -> Job:
        """Start the measuring job, once more if it ends at once; HostsFailed if it is hosts that
        fail, EnvironmentFailure if it does not start or ranks are not where they belong."""
        if self._started:  # in the beginning there was the preflight
            self.health.check()
        else:
            self._inventory = take_inventory(self.backend.query, program)
            for line in differences(self._inventory):
                self._say(line)
        self._started = True
        try:
            return self._launch(program)
        except JobLost as loss:
            self.health.blame([loss])
            self.health.check()
            if loss.silent and not self.backend.on_this_machine:  # it would be so again
                raise self._unheard(loss) from loss
        try:
            return self._launch(program)
        except JobLost as loss:
            self.health.blame([loss])
            raise

    def with_job(
        self, job: Job, program: Path, say: Callable[[str], None], work: Callable[[Job], T]
    ) -> tuple[Job, T]:
        """Do what needs a job, with another one if it is lost; the job in the end, and what came of
        it. It is no variant's fault, so a host's."""
        for _ in range(TRIES - 1):
            try:
                return job, work(job)
            except JobLost as loss:
                say(f"{loss}; the job is restarted")
                job.kill()
                self.health.blame([loss])
                job = self.start_job(program)
        try:
            return job, work(job)
        except JobLost as loss:
            self.health.blame([loss])
            self.health.check()
            raise self._unheard(loss) from loss

    def _unheard(self, loss: JobLost) -> JobLost:
        """A loss with what may have caused it, where hosts answer and ranks say nothing."""
        if not loss.silent or self.backend.on_this_machine:
            return loss
        return JobLost(f"{loss.why}: {NOT_THROUGH}", loss.host, True)

    def _launch(self, program: Path) -> Job:
        job = self.backend.start(program)
        self._stack.callback(job.kill)
        name_of = self.cluster.topology.names.of
        wanted = [name_of(host) for host in self.cluster.host_of_rank()]
        found = [name_of(host) for host in job.hosts]
        if self.backend.places_ranks and found != wanted:
            job.kill()
            raise EnvironmentFailure(misplaced(wanted, found))
        if self.cluster.grid:
            job.choose_grid(*self.cluster.grid)
        return job

    def fingerprint(self, library: str, timing: str) -> dict[str, object]:
        """All on which measurements depend: another value of any field makes them stale."""
        cluster = self.cluster

        def hashed(name: str) -> str:
            return f"{name_hash(cluster.topology.names.of(name)):016x}"

        everything = {**os.environ, **self.backend.settings}
        fields: dict[str, object] = {
            "library": library,
            "hosts": [hashed(host) for host in cluster.host_of_rank()],
            "tree": [
                [hashed(link.upper), hashed(link.lower), link.mbit]
                for link in cluster.topology.links
            ],
            "settings": {k: v for k, v in everything.items() if k.startswith(MPI_SETTINGS)},
            **self.backend.circumstances(self._inventory),
            "port buffer": cluster.buffer,
            "dilation": cluster.dilation,
            "timing": timing,
            "sources": hash_of(measured_sources()),
        }
        if cluster.grid:
            fields["grid"] = [*cluster.grid]
        return fields


def misplaced(wanted: Sequence[str], found: Sequence[str]) -> str:
    """Why ranks are on other hosts than they were ``wanted``, rank by rank: those have other names
    for themselves, or the launcher did as it liked."""
    names = dict(zip(wanted, found))
    is_renamed = (
        len(wanted) == len(found)
        and [names[host] for host in wanted] == list(found)
        and set(wanted).isdisjoint(found)
        and len(set(found)) == len(names)
    )
    if is_renamed:
        return (
            f"host {wanted[0]} calls itself {found[0]}: name hosts as they do themselves, in "
            "the host file and the topology"
        )
    shortened = [host for host in names if names[host] == short_name(host) != host]
    if shortened:
        return (
            f"host {shortened[0]} calls itself {names[shortened[0]]}, as another may: give hosts "
            "names that differ, or full ones (hostnamectl hostname NAME)"
        )
    return f"ranks are not placed as asked: rank 0.. on {list(found[:8])}, not {list(wanted[:8])}"
