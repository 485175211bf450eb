"""The cluster in use: its emulation if it has one, its jobs, and what identifies it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from search.cluster import netns
from search.cluster.emulation import Emulation
from search.cluster.hostlist import name_hash, short_name
from search.cluster.hosts import Cluster
from search.cluster.launcher import hostfile_text, launch_argv, preflight
from search.errors import EnvironmentFailure
from search.measure.job import Job
from search.toolchain import PROBES, TEMPLATES, Toolchain

MPI_SETTINGS = ("MPIR_", "MPICH_", "FI_", "UCX_", "HYDRA_")


class Site:
    """Context manager: between entry and exit jobs can be started on the cluster."""

    def __init__(self, cluster: Cluster, tools: Toolchain, build: Path) -> None:
        self.cluster, self.tools, self.build = cluster, tools, build
        self.emulation: Emulation | None = None
        self._stack = ExitStack()
        self._environment = self._job_environment()

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

    def start_job(self, program: Path) -> Job:
        """Start the measuring job; EnvironmentFailure if ranks are not where they belong."""
        hostfile = self.build / "hostfile"
        hostfile.write_text(hostfile_text(self.cluster), encoding="utf-8")
        argv = launch_argv(
            self.cluster, self.tools, hostfile, program, self._environment, self.emulation
        )
        environment = dict(os.environ)
        if self.cluster.launcher == "srun":
            listed = self.build / "srun-hosts"
            listed.write_text("\n".join(self.cluster.host_of_rank()) + "\n", encoding="utf-8")
            environment["SLURM_HOSTFILE"] = str(listed)
        sweep = self.emulation.kill_all if self.emulation else lambda: None
        job = Job(argv, environment, self.build / "job.log", sweep)
        self._stack.callback(job.kill)
        wanted = [short_name(name) for name in self.cluster.host_of_rank()]
        if self.cluster.kind != "local" and [short_name(name) for name in job.hosts] != wanted:
            job.kill()
            raise EnvironmentFailure(
                f"ranks are not placed as asked: rank 0.. on {job.hosts[:8]}, not {wanted[:8]}"
            )
        if self.cluster.grid:
            job.choose_grid(*self.cluster.grid)
        return job

    def fingerprint(self, library: str, timing: str) -> dict[str, object]:
        """All on which measurements depend: another value of any field makes them stale."""
        cluster = self.cluster
        settings = {k: v for k, v in os.environ.items() if k.startswith(MPI_SETTINGS)}
        settings |= {k: v for k, v in self._environment.items() if k.startswith(MPI_SETTINGS)}
        fields: dict[str, object] = {
            "library": library,
            "kernel": platform.release(),
            "hosts": [f"{name_hash(h):016x}" for h in cluster.host_of_rank()],
            "tree": [
                [f"{name_hash(link.upper):016x}", f"{name_hash(link.lower):016x}", link.mbit]
                for link in cluster.topology.links
            ],
            "settings": settings,
            "tcp": netns.SYSCTLS if self.emulation else _tcp_settings(),
            "congestion control": netns.CONGESTION_CONTROL if self.emulation else _tcp_control(),
            "port buffer": cluster.buffer,
            "timing": timing,
            "sources": source_hash(),
        }
        if cluster.grid:
            fields["grid"] = [*cluster.grid]
        return fields


def digest(fields: Mapping[str, object]) -> str:
    """A short name for a fingerprint."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def source_hash() -> str:
    """Changes when what is measured, or how, changes."""
    total = hashlib.sha256()
    sources = [*TEMPLATES.rglob("*.j2"), *TEMPLATES.rglob("*.toml")]
    for path in [*sorted(sources), *sorted(PROBES.glob("*.[ch]"))]:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def _read_proc(name: str) -> str:
    try:
        return " ".join(Path("/proc/sys/net/ipv4", name).read_text(encoding="ascii").split())
    except OSError:
        return ""


def _tcp_control() -> str:
    return _read_proc("tcp_congestion_control")


def _tcp_settings() -> dict[str, str]:
    return {name: _read_proc(name) for name in ("tcp_rmem", "tcp_wmem", "tcp_sack")}
