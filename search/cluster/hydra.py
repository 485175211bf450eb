"""Command lines of MPICH's launcher, and its host file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from search.cluster.hosts import Cluster
from search.files import write_whole


def hostfile_text(cluster: Cluster) -> str:
    """The cluster as a Hydra host file, in rank order."""
    return "".join(f"{name}:{count}\n" for name, count in cluster.ranks_on().items())


def write_hostfile(cluster: Cluster, build: Path) -> Path:
    """Write it; where it is."""
    path = build / "hostfile"
    write_whole(path, hostfile_text(cluster))
    return path


def mpiexec_argv(
    mpiexec: str, words: list[str], cluster: Cluster, settings: Mapping[str, str], program: Path
) -> list[str]:
    """The command that starts the cluster's ranks; ``words`` say how hosts are reached."""
    exports = [word for key, value in settings.items() for word in ("-genv", key, value)]
    return [mpiexec, *words, "-n", str(cluster.ranks), *exports, str(program)]
