"""How a job is started: the argument vector for each launcher, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search.cluster.emulation import ENTER, Emulation
from search.cluster.hosts import Cluster
from search.errors import EnvironmentFailure
from search.toolchain import Toolchain


def hostfile_text(cluster: Cluster) -> str:
    """The cluster as a Hydra host file, in rank order."""
    return "".join(f"{name}:{count}\n" for name, count in cluster.ranks_on().items())


def launch_argv(
    cluster: Cluster,
    tools: Toolchain,
    hostfile: Path,
    program: Path,
    environment: Mapping[str, str],
    emulation: Emulation | None,
) -> list[str]:
    """The command that starts one rank of ``program`` on each slot of the cluster."""
    count = str(cluster.ranks)
    settings = [word for key, value in environment.items() for word in ("-genv", key, value)]
    if emulation:
        hydra = [
            tools.mpiexec,
            "-launcher",
            "ssh",
            "-launcher-exec",
            ENTER,
            "-iface",
            emulation.interface,
            "-f",
            str(hostfile),
            "-n",
            count,
        ]
        # Hydra starts the first host's ranks itself, so it must run there.
        first = cluster.host_of_rank()[0]
        return emulation.on_host(first, [*hydra, *settings, str(program)])
    if cluster.launcher == "srun":
        exports = ",".join(["ALL", *(f"{key}={value}" for key, value in environment.items())])
        return [
            "srun",
            "--input=0",
            f"--ntasks={count}",
            "--distribution=arbitrary",
            f"--export={exports}",
            str(program),
        ]
    if cluster.kind == "local":
        return [tools.mpiexec, "-n", count, *settings, str(program)]
    return [
        tools.mpiexec,
        "-launcher",
        "ssh",
        "-f",
        str(hostfile),
        "-n",
        count,
        *settings,
        str(program),
    ]


def preflight(cluster: Cluster) -> None:
    """Reach every host by ssh, in parallel; EnvironmentFailure names those that do not answer."""

    def reason(host: str) -> str | None:
        argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host, "true"]
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=15,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return "no answer within 15 s"
        except OSError as error:
            return f"cannot run ssh: {error.strerror}"
        if done.returncode == 0:
            return None
        return (done.stderr.strip().splitlines() or [f"ssh ended with {done.returncode}"])[-1]

    hosts: Sequence[str] = list(cluster.ranks_on())
    with ThreadPoolExecutor(max_workers=32) as pool:
        failures = [(h, r) for h, r in zip(hosts, pool.map(reason, hosts)) if r]
    if failures:
        host, why = failures[0]
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise EnvironmentFailure(
            f"host {host} cannot be used{others}: {why}; "
            f"'ssh {host} true' must work without a password"
        )
