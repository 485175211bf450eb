"""The hosts of a list, reached by ssh: Hydra starts jobs there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.cluster.asking import ask
from search.cluster.backend import Backend, Found
from search.cluster.hostfile import read_hostfile
from search.cluster.hydra import mpiexec_argv, write_hostfile
from search.cluster.topology_file import topology_of
from search.errors import HostsFailed, summarised

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--")


class Ssh(Backend):
    """Hosts of --hostfile=FILE."""

    @classmethod
    def is_meant(cls, options: Any, environment: Mapping[str, str]) -> bool:
        has_hosts = options.hostfile and not options.emulate
        return bool(has_hosts and options.launcher in (None, cls.launcher))

    @classmethod
    def find(cls, options: Any, environment: Mapping[str, str]) -> Found:
        hosts = read_hostfile(Path(options.hostfile))
        return Found(hosts, *topology_of(options.topology, hosts))

    def __enter__(self) -> Ssh:
        """Reach every host; HostsFailed names those that do not answer."""
        failures = self.ask("true")
        if failures:
            host, why = next(iter(failures.items()))
            cure = f"'ssh {host} true' must work without a password"
            if "host key" in why.lower():
                cure = f"'ssh-keyscan {host} >> ~/.ssh/known_hosts' if you trust this network"
            raise HostsFailed(
                f"host {summarised(list(failures))} cannot be used: {why}; {cure}, "
                "or --allow-shrink",
                tuple(failures),
            )
        return self

    def argv(self, program: Path) -> list[str]:
        hostfile = str(write_hostfile(self.cluster, self.build))
        words = ["-launcher", "ssh", "-f", hostfile]
        return mpiexec_argv(self.tools.mpiexec, words, self.cluster, self.settings, program)

    def reach(self, host: str) -> list[str]:
        return [*SSH, host]

    def query(self, command: str) -> dict[str, str]:
        answers = ask(self.cluster.ranks_on(), self.reach, command, self.timeouts.host)
        return {host: "" if answer.failure else answer.text for host, answer in answers.items()}
