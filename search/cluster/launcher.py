"""How a job is started: the argument vector for each launcher, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from search.cluster import slurm
from search.cluster.emulation import ENTER, Emulation
from search.cluster.hosts import Cluster
from search.errors import HostsFailed
from search.toolchain import Toolchain

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--")
REACH_SECONDS = 15.0
MOST_AT_ONCE = 32


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


def on_host(cluster: Cluster, emulation: Emulation | None, host: str) -> list[str]:
    """What stands before shell words to run them on a host as the launcher would; nothing where
    there is no such way from here."""
    if emulation:
        return emulation.inside([ENTER, host])
    if cluster.kind == "remote" and cluster.launcher == "hydra":
        return [*SSH, host]
    return []


@dataclass(frozen=True)
class Answer:
    """What a command wrote, and why it failed, in one line, if it did."""

    text: str
    failure: str | None = None


def ask_hosts(cluster: Cluster, emulation: Emulation | None, command: str) -> dict[str, str]:
    """Run shell words on every host, in parallel: why they failed, for each host where they did."""
    answers = _answers(cluster, emulation, command)
    return {host: answer.failure for host, answer in answers.items() if answer.failure}


def query_hosts(cluster: Cluster, command: str) -> dict[str, str]:
    """Run shell words on every host of a real cluster as the launcher would: what they write, in
    one line, on each; nothing where they fail, since a job may do well there."""
    hosts = list(cluster.ranks_on())
    if cluster.launcher == "srun":
        said = slurm.run_on_hosts(hosts, command)
        lines = (line.partition(" ") for line in said.splitlines())
        name_of = cluster.topology.names.of
        found = {name_of(host): text for host, _, text in lines}
        return {host: found.get(name_of(host), "") for host in hosts}
    answers = _answers(cluster, None, command)
    return {host: "" if answer.failure else answer.text for host, answer in answers.items()}


def _answers(cluster: Cluster, emulation: Emulation | None, command: str) -> dict[str, Answer]:
    """What every host says that can be reached one by one, asked in parallel."""
    hosts = [host for host in cluster.ranks_on() if on_host(cluster, emulation, host)]
    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        answers = pool.map(
            lambda host: _answer([*on_host(cluster, emulation, host), command]), hosts
        )
        return dict(zip(hosts, answers))


def _answer(argv: Sequence[str]) -> Answer:
    """Run a command that is quick where all is well."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # files, since a pipe could be held open by what ssh leaves behind
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return Answer("", f"cannot run {argv[0]}: {error.strerror}")
        try:
            code = process.wait(REACH_SECONDS)
        except subprocess.TimeoutExpired:
            return Answer("", f"no answer within {REACH_SECONDS:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said, words = [_read_from_start(file) for file in (output, errors)]
    lines = [line.strip() for line in words.split("\n") if line.strip()]
    return Answer(said, (lines or [f"{argv[0]} ended with {code}"])[-1] if code else None)


def _read_from_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def preflight(cluster: Cluster) -> None:
    """Reach every host by ssh; HostsFailed names those that do not answer."""
    failures = ask_hosts(cluster, None, "true")
    if failures:
        host, why = next(iter(failures.items()))
        others = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        cure = f"'ssh {host} true' must work without a password"
        if "host key" in why.lower():
            cure = f"'ssh-keyscan {host} >> ~/.ssh/known_hosts' if you trust this network"
        raise HostsFailed(
            f"host {host} cannot be used{others}: {why}; {cure}, or --allow-shrink", tuple(failures)
        )


def sweep_hosts(cluster: Cluster, program: Path) -> None:
    """Kill what a job that was killed left of ``program`` on the hosts."""
    pattern = "^" + re.escape(str(program))
    ask_hosts(cluster, None, shlex.join(["pkill", "-KILL", "-f", "--", pattern]))
