"""The hosts of a Slurm job: srun starts jobs there."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.cluster import slurm
from search.cluster.backend import Backend, Found
from search.cluster.hostfile import read_hostfile
from search.cluster.job import Job, JobLost
from search.cluster.topology_file import topology_of
from search.errors import EnvironmentFailure
from search.files import write_whole


class Srun(Backend):
    """Hosts of the job that this process is part of."""

    launcher = "srun"
    _connecting: Mapping[str, str] = {}
    """what lets the ranks of a step find each other, once that is known"""

    @classmethod
    def is_meant(cls, options: Any, environment: Mapping[str, str]) -> bool:
        return not options.emulate and slurm.takes_srun(options, environment)

    @classmethod
    def find(cls, options: Any, environment: Mapping[str, str]) -> Found:
        """All hosts of the job, or those of a host file; the tree as Slurm has it, if a file does
        not say otherwise."""
        if options.hostfile:
            hosts = read_hostfile(Path(options.hostfile))
        else:
            hosts = slurm.slurm_hosts(environment)
        tree = None if options.topology else slurm.job_topology(len(hosts))
        if tree:
            return Found(hosts, tree, f"{slurm.SOURCE} of the Slurm job")
        return Found(hosts, *topology_of(options.topology, hosts))

    def argv(self, program: Path) -> list[str]:
        exports = ",".join(["ALL", *(f"{key}={value}" for key, value in self.settings.items())])
        return [
            "srun",
            "--input=0",
            f"--ntasks={self.cluster.ranks}",
            "--distribution=arbitrary",
            f"--export={exports}",
            str(program),
        ]

    def start(self, program: Path) -> Job:
        """Start the job; where Slurm's default leaves each task alone, connected in another way."""
        job = self._start(program, self._connecting)
        if self.cluster.ranks == 1 or len(job.hosts) > 1:
            return job
        job.kill()
        for kind in slurm.mpi_types():
            with contextlib.suppress(JobLost):
                job = self._start(program, {slurm.MPI_TYPE: kind})
                if len(job.hosts) > 1:
                    self._connecting = {slurm.MPI_TYPE: kind}
                    self.say(
                        "srun leaves each task alone here, and connects them with "
                        f"{slurm.MPI_TYPE}={kind}: set it for your programs, too"
                    )
                    return job
                job.kill()
        raise EnvironmentFailure(
            f"srun leaves each task alone: export {slurm.MPI_TYPE}=pmi2, or another that 'srun "
            "--mpi=list' names and this MPI library knows"
        )

    def _start(self, program: Path, settings: Mapping[str, str]) -> Job:
        listed = self.build / "srun-hosts"
        write_whole(listed, "\n".join(self.cluster.host_of_rank()) + "\n")
        return self._job(program, {"SLURM_HOSTFILE": str(listed), **settings})

    def why_over(self) -> str:
        return slurm.why_over()

    def query(self, command: str) -> dict[str, str]:
        hosts = list(self.cluster.ranks_on())
        said = slurm.run_on_hosts(hosts, command)
        lines = (line.partition(" ") for line in said.splitlines())
        name_of = self.cluster.topology.names.of
        found = {name_of(host): text for host, _, text in lines}
        return {host: found.get(name_of(host), "") for host in hosts}
