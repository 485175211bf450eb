"""What every kind of cluster answers to; each is a class in a file of backends/."""

from __future__ import annotations

import os
import platform
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from search.cluster.asking import ask
from search.cluster.hosts import Cluster, Host
from search.cluster.inventory import TCP_SETTINGS, Inventory, fact
from search.cluster.job import Job
from search.cluster.topology import Topology
from search.timeouts import USUAL, Timeouts
from search.toolchain import Toolchain

NETWORK_CARDS = Path("/sys/class/net")
WIRES, PROCESSORS = "wires", "processors"


@dataclass(frozen=True)
class Found:
    """A cluster as its backend found it: hosts with slots, the switch tree and, where switches are
    made, the buffer of their ports in bytes; ``source`` says where the tree came from."""

    hosts: Sequence[Host]
    topology: Topology
    source: str
    buffer: int = 0


class Backend(ABC):
    """A kind of cluster: how its hosts are found and asked, and jobs started on them.

    A context manager: between entry and exit jobs can be started.
    """

    word: ClassVar[str] = "remote"
    """what its hosts are, for people"""
    launcher: ClassVar[str] = "hydra"
    """what --launcher= calls it"""
    on_this_machine: ClassVar[bool] = False
    """whether all hosts are this machine: its stalls and busy processors can be watched from here,
    and nobody need be asked"""
    can_dilate: ClassVar[bool] = False
    """whether time can pass slower there, as far as this machine needs it"""
    accepts_noise: ClassVar[bool] = False
    """whether what disturbs it is no reason to stop"""
    watched: ClassVar[frozenset[str]] = frozenset((WIRES, PROCESSORS))
    """what the noise gates look at"""
    places_ranks: ClassVar[bool] = True
    """whether ranks belong on certain hosts"""
    is_named: ClassVar[bool] = True
    """whether a user, or a job, named its hosts"""

    def __init__(
        self,
        cluster: Cluster,
        tools: Toolchain,
        build: Path,
        say: Callable[[str], None],
        timeouts: Timeouts = USUAL,
    ) -> None:
        """``build`` is the folder for files; ``say`` is told in one line what the user should know
        of how jobs are started."""
        self.cluster, self.tools, self.build, self.say = cluster, tools, build, say
        self.timeouts = timeouts

    @classmethod
    @abstractmethod
    def is_meant(cls, options: Any, environment: Mapping[str, str]) -> bool:
        """Whether the options (see cli/options.py), in this environment, mean such a cluster."""

    @classmethod
    @abstractmethod
    def find(cls, options: Any, environment: Mapping[str, str]) -> Found:
        """The cluster that they mean; UserError where they cannot."""

    @classmethod
    def introduction(cls, found: Found) -> str:
        """What to tell the user of a cluster that was found; nothing if all is said."""
        return f"topology: {found.source}"

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @abstractmethod
    def argv(self, program: Path) -> list[str]:
        """The command that starts one rank of a program on each slot."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of the job's ranks that are not those of this process."""
        return {}

    def start(self, program: Path) -> Job:
        """Start the measuring job; JobLost if it does not come up."""
        return self._job(program, {})

    def _job(self, program: Path, settings: Mapping[str, str]) -> Job:
        """A job whose launcher has these settings, too."""
        return Job(
            self.argv(program),
            {**os.environ, **settings},
            self.build / "job.log",
            lambda: self.sweep(program),
            self.why_over,
            self.timeouts,
            self.cluster.members_text,
        )

    def why_over(self) -> str:
        """Why the allocation came to its end, in brackets, if there was one."""
        return ""

    def sweep(self, program: Path) -> None:
        """Kill what a job that was killed left of a program on the hosts."""
        pattern = "^" + re.escape(str(program))
        self.ask(shlex.join(["pkill", "-KILL", "-f", "--", pattern]))

    def reach(self, host: str) -> list[str]:
        """What stands before shell words to run them on a host as the launcher would; nothing where
        there is no such way from here."""
        return []

    def ask(self, command: str) -> dict[str, str]:
        """Run shell words on every host: why they failed, for each host where they did."""
        answers = ask(self.cluster.ranks_on(), self.reach, command, self.timeouts.host)
        return {host: answer.failure for host, answer in answers.items() if answer.failure}

    def query(self, command: str) -> dict[str, str]:
        """Run shell words on every host that is not this machine: what they write, in one line, on
        each; nothing where they fail, since a job may do well there."""
        return {}

    def dilate(self, dilation: int) -> None:
        """Let time pass so many times slower, where it can."""
        return

    def circumstances(self, inventory: Inventory) -> dict[str, object]:
        """On what measurements depend besides the cluster's shape: of each host, or of this one."""

        def of(key: str, here: str) -> object:
            return fact(inventory, key) if inventory else here

        return {
            "kernel": of("kernel", platform.release()),
            "tcp": {name: of(name, read_proc(name)) for name in TCP_SETTINGS},
            "network cards": network_cards(),
            "congestion control": of("tcp_congestion_control", read_proc("tcp_congestion_control")),
        }


def read_proc(name: str) -> str:
    """A setting of this machine's TCP; nothing if there is none."""
    try:
        return " ".join(Path("/proc/sys/net/ipv4", name).read_text(encoding="ascii").split())
    except OSError:
        return ""


def network_cards() -> dict[str, list[str]]:
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
