"""The cluster in use: its emulation if it has one, its jobs, and what identifies it."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from search.cluster import netns, slurm
from search.cluster.emulation import Emulation
from search.cluster.health import Health
from search.cluster.hostlist import name_hash, short_name
from search.cluster.hosts import Cluster
from search.cluster.inventory import (
    TCP_SETTINGS,
    Inventory,
    differences,
    fact,
    take_inventory,
)
from search.cluster.job import Job, JobLost
from search.cluster.launcher import (
    ask_hosts,
    hostfile_text,
    launch_argv,
    preflight,
    sweep_hosts,
)
from search.errors import EnvironmentFailure
from search.files import write_whole
from search.results.fingerprint import hash_of
from search.toolchain import Toolchain, measured_sources

TRIES = 2
"""Of what needs a job that is lost."""
NETWORK_CARDS = Path("/sys/class/net")
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
    ) -> None:
        """``say`` is told in one line what the user should know of how jobs are started."""
        self.cluster, self.tools, self.build, self._say = cluster, tools, build, say
        self.emulation: Emulation | None = None
        self._slurm_settings: dict[str, str] = {}
        self._stack = ExitStack()
        self._environment = self._job_environment()
        self._started = False
        self._inventory: Inventory = {}
        self.health = Health(
            list(cluster.ranks_on()), lambda: ask_hosts(cluster, self.emulation, "true")
        )

    def _job_environment(self) -> dict[str, str]:
        """Settings of the job on an emulated cluster; a real one has its own."""
        if self.cluster.kind != "emulated":
            return {}
        return {
            **self.tools.transport(),
            "MPIR_CVAR_NOLOCAL": "1",  # shared memory would be polled by ranks that sleep
            "FI_TCP_IFACE": netns.INTERFACE,
            "UCX_NET_DEVICES": netns.INTERFACE,
            "TMPDIR": str(netns.ROOM),
            "LD_PRELOAD": str(netns.PRELOAD),
        }

    def __enter__(self) -> Site:
        if self.cluster.kind == "emulated":
            preload = self.build / "libblocking.so"
            self.tools.compile_preload(preload)
            self.emulation = self._stack.enter_context(Emulation(self.cluster, preload))
        elif self.cluster.kind == "remote" and self.cluster.launcher == "hydra":
            preflight(self.cluster)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pace(self, block: int) -> float:
        """Let time pass as fast as it shall while calls with ``block`` bytes to each peer are
        timed; TCP's shortest retransmission time-out there, in seconds."""
        there = self.cluster.at(block)
        if self.emulation:
            self.emulation.dilate(there.dilation)
        return there.timeout

    def start_job(self, program: Path) -> Job:
        """Start the measuring job, once more if it ends at once; HostsFailed if it is hosts that
        fail, EnvironmentFailure if it does not start or ranks are not where they belong."""
        if self._started:  # in the beginning there was the preflight
            self.health.check()
        else:
            self._inventory = take_inventory(self.cluster, program)
            for line in differences(self._inventory):
                self._say(line)
        self._started = True
        try:
            return self._launch(program)
        except JobLost as loss:
            self.health.blame([loss])
            self.health.check()
            if loss.silent:
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
        if not loss.silent or self.cluster.kind != "remote":
            return loss
        return JobLost(f"{loss.why}: {NOT_THROUGH}", loss.host, True)

    def _launch(self, program: Path) -> Job:
        hostfile = self.build / "hostfile"
        write_whole(hostfile, hostfile_text(self.cluster))
        argv = launch_argv(
            self.cluster, self.tools, hostfile, program, self._environment, self.emulation
        )
        environment = {**os.environ, **self._slurm_settings}
        if self.cluster.launcher == "srun":
            listed = self.build / "srun-hosts"
            write_whole(listed, "\n".join(self.cluster.host_of_rank()) + "\n")
            environment["SLURM_HOSTFILE"] = str(listed)
        left = partial(sweep_hosts, self.cluster, program)
        sweep = self.emulation.kill_all if self.emulation else left

        def start(settings: Mapping[str, str]) -> Job:
            job = Job(
                argv, {**environment, **settings}, self.build / "job.log", sweep, slurm.why_over
            )
            self._stack.callback(job.kill)
            return job

        job = start({})
        if self.cluster.launcher == "srun" and self.cluster.ranks > 1 and len(job.hosts) == 1:
            job.kill()
            job = self._start_connected(start)
        name_of = self.cluster.topology.names.of
        wanted = [name_of(host) for host in self.cluster.host_of_rank()]
        found = [name_of(host) for host in job.hosts]
        if self.cluster.kind != "local" and found != wanted:
            job.kill()
            raise EnvironmentFailure(misplaced(wanted, found))
        if self.cluster.grid:
            job.choose_grid(*self.cluster.grid)
        return job

    def _start_connected(self, start: Callable[[Mapping[str, str]], Job]) -> Job:
        """A job of srun whose tasks know of each other, where Slurm's default leaves each alone."""
        for kind in slurm.mpi_types():
            settings = {slurm.MPI_TYPE: kind}
            with contextlib.suppress(JobLost):
                job = start(settings)
                if len(job.hosts) > 1:
                    self._slurm_settings = settings
                    self._say(
                        "srun leaves each task alone here, and connects them with "
                        f"{slurm.MPI_TYPE}={kind}: set it for your programs, too"
                    )
                    return job
                job.kill()
        raise EnvironmentFailure(
            f"srun leaves each task alone: export {slurm.MPI_TYPE}=pmi2, or another that 'srun "
            "--mpi=list' names and this MPI library knows"
        )

    def fingerprint(self, library: str, timing: str) -> dict[str, object]:
        """All on which measurements depend: another value of any field makes them stale."""
        cluster = self.cluster

        def hashed(name: str) -> str:
            return f"{name_hash(cluster.topology.names.of(name)):016x}"

        settings = {k: v for k, v in os.environ.items() if k.startswith(MPI_SETTINGS)}
        settings |= {k: v for k, v in self._environment.items() if k.startswith(MPI_SETTINGS)}
        fields: dict[str, object] = {
            "library": library,
            "kernel": self._fact("kernel", platform.release()),
            "hosts": [hashed(host) for host in cluster.host_of_rank()],
            "tree": [
                [hashed(link.upper), hashed(link.lower), link.mbit]
                for link in cluster.topology.links
            ],
            "settings": settings,
            "tcp": netns.SYSCTLS if self.emulation else {n: self._tcp(n) for n in TCP_SETTINGS},
            "network cards": {} if self.emulation else _network_cards(),
            "congestion control": netns.CONGESTION_CONTROL
            if self.emulation
            else self._tcp("tcp_congestion_control"),
            "port buffer": cluster.buffer,
            "dilation": cluster.dilation,
            "timing": timing,
            "sources": hash_of(measured_sources()),
        }
        if cluster.grid:
            fields["grid"] = [*cluster.grid]
        return fields

    def _fact(self, key: str, here: str) -> object:
        """What is so on the hosts, or else here."""
        return fact(self._inventory, key) if self._inventory else here

    def _tcp(self, name: str) -> object:
        return self._fact(name, _read_proc(name))


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


def _read_proc(name: str) -> str:
    try:
        return " ".join(Path("/proc/sys/net/ipv4", name).read_text(encoding="ascii").split())
    except OSError:
        return ""


def _network_cards() -> dict[str, list[str]]:
    """Driver, speed in Mbit/s and MTU of this machine's cards."""

    def read(path: Path) -> str:
        try:
            return path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""  # the speed of one that is not plugged in

    cards = [path for path in sorted(NETWORK_CARDS.glob("*")) if (path / "device").exists()]
    return {
        card.name: [
            (card / "device" / "driver").resolve().name,
            read(card / "speed"),
            read(card / "mtu"),
        ]
        for card in cards
    }
