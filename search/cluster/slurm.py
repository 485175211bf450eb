"""What Slurm says of a job: its hosts, the switches above them, its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from search.cluster.hostlist import check_name, expand
from search.cluster.hosts import Host
from search.cluster.topology import SwitchLine, Topology, build_tree
from search.errors import EnvironmentFailure, UserError

SOURCE = "SLURM_TOPOLOGY_ADDR"
TOP = "slurm-top"
"""Stands above the highest switches, which Slurm's addresses leave out where there are several."""
SRUN_SECONDS = 60
MPI_TYPE = "SLURM_MPI_TYPE"
"""What srun reads as its option --mpi."""


def takes_srun(options: Any, environment: Mapping[str, str]) -> bool:
    """Whether jobs are to be started by srun: the options say so, or it is a Slurm job whose hosts
    are to be taken."""
    if options.launcher:
        return bool(options.launcher == "srun")
    has_hosts = options.emulate or options.hostfile
    in_job = environment.get("SLURM_JOB_NODELIST") and shutil.which("srun")
    return bool(in_job and not has_hosts)


def slurm_hosts(environment: Mapping[str, str]) -> list[Host]:
    """The hosts of a Slurm job, from SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE."""
    if not environment.get("SLURM_JOB_NODELIST"):
        raise UserError("--launcher=srun: no Slurm job here: run configure in salloc or sbatch")
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


def ask_addresses(hosts: int) -> list[str]:
    """One line ``address pattern`` from each host of the job; they differ from host to host."""
    script = f'echo "${SOURCE}" "${SOURCE}_PATTERN"'  # only tasks have them
    return _run_script(hosts, [], script, SOURCE).split()


def run_on_hosts(hosts: Sequence[str], script: str) -> str:
    """A line ``host text`` from each of these hosts of the job: what a script writes there, while
    other tasks are at work, too. Nothing if srun cannot do that."""
    words = [f"--nodelist={','.join(hosts)}"]
    for overlap in (["--overlap"], []):  # what was the default before Slurm 20.11 had the word
        with contextlib.suppress(EnvironmentFailure):
            text = f'echo "$SLURMD_NODENAME $({script})"'
            return _run_script(len(hosts), [*overlap, *words], text, "")
    return ""


def _run_script(hosts: int, words: Sequence[str], script: str, what: str) -> str:
    """What a script writes on so many hosts of the job; ``what`` it asks for, for errors."""
    argv = ["srun", f"--nodes={hosts}", f"--ntasks={hosts}", "--ntasks-per-node=1", "--input=none"]
    argv += [*words, "sh", "-c", script]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=SRUN_SECONDS, check=False
        )
    except OSError as error:
        raise EnvironmentFailure(f"cannot run srun: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"srun says nothing within {SRUN_SECONDS} s") from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise EnvironmentFailure(f"srun cannot ask the hosts for {what}: {reason}")
    return done.stdout


def why_over() -> str:
    """Why this job came to its end, in brackets, as far as Slurm says so: which of its hosts are
    down or do not respond, or the job's state."""
    nodes = os.environ.get("SLURM_JOB_NODELIST", "")
    states = _asked(["sinfo", "-h", "-N", "-o", "%n %T", "-n", nodes]) if nodes else ""
    hosts = sorted(set(re.findall(r"^(\S+) (?:(?:down|fail)\S*|\S+\*)$", states, re.M)))
    if hosts:
        return f" ({', '.join(hosts)} down)"
    job = _asked(["scontrol", "show", "job", "-o", os.environ.get("SLURM_JOB_ID", "")])
    state = re.search(r"\bJobState=(\S+)", job)
    return f" ({state[1]})" if state and state[1] != "COMPLETING" else ""


def mpi_types() -> list[str]:
    """The ways in which srun here can tell an MPI's tasks of each other, the most usual first."""
    found = re.findall(r"\b(pmi2|pmix(?:_v\d+)?)\b", _asked(["srun", "--mpi=list"]))
    return sorted(dict.fromkeys(found))


def _asked(argv: Sequence[str]) -> str:
    """All that a command of Slurm's says, nothing if it cannot be run."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=SRUN_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def tree_of_addresses(words: Iterable[str]) -> Topology | None:
    """The tree of addresses such as ``s0.s4.node7``; patterns such as ``switch.switch.node``
    among them are passed over. None if no address names a switch.

    Raises UserError where they contradict each other.
    """
    nodes: dict[str, set[str]] = {}
    children: dict[str, set[str]] = {}
    for word in words:
        names = [check_name(name, SOURCE) for name in word.split(".")]
        if names[-1] == "node" and set(names[:-1]) <= {"switch", "block"}:
            continue
        above = [TOP, *names[:-1]]
        for upper, lower in zip(above, above[1:]):
            children.setdefault(upper, set()).add(lower)
        nodes.setdefault(above[-1], set()).add(names[-1])
    tops = children.get(TOP, set())
    if not tops:
        return None
    if len(tops) == 1 and TOP not in nodes:
        del children[TOP]
    switches = sorted({*nodes, *children, *tops})
    return build_tree([_line(name, nodes, children) for name in switches], SOURCE)


def _line(name: str, nodes: Mapping[str, set[str]], children: Mapping[str, set[str]]) -> SwitchLine:
    return SwitchLine(
        SOURCE,
        name,
        tuple(sorted(nodes.get(name, ()))),
        tuple(sorted(children.get(name, ()))),
        None,
    )


def job_topology(hosts: int) -> Topology | None:
    """The switches above the hosts of this job, if Slurm was told of any."""
    try:
        return tree_of_addresses(ask_addresses(hosts))
    except UserError as error:
        raise EnvironmentFailure(f"{error}: --topology=FILE names a file instead") from error
