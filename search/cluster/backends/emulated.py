"""Hosts of network namespaces on this machine: see ../emulation.py."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from search.cluster import netns
from search.cluster.backend import WIRES, Backend, Found
from search.cluster.emulation import ENTER, Emulation
from search.cluster.hosts import Host
from search.cluster.hydra import mpiexec_argv, write_hostfile
from search.cluster.inventory import Inventory
from search.cluster.topology_file import read_topology
from search.errors import UserError

SMALLEST_BUFFER = 3000
"""Bytes: a port that cannot hold two frames passes nothing."""


class Emulated(Backend):
    """An emulated cluster, for as long as it is used."""

    word = "emulated"
    on_this_machine = True
    can_dilate = True
    accepts_noise = True
    watched = frozenset((WIRES,))

    @classmethod
    def is_meant(cls, options: Any, environment: Mapping[str, str]) -> bool:
        return bool(options.emulate)

    @classmethod
    def find(cls, options: Any, environment: Mapping[str, str]) -> Found:
        """The hosts of a topology file."""
        topology = read_topology(Path(options.emulate))
        if any(link.mbit is None for link in topology.links):
            raise UserError(f"{options.emulate}: every switch needs a LinkSpeed= to be emulated")
        if options.buffer < SMALLEST_BUFFER:
            raise UserError(
                f"--emulate-buffer={options.buffer}: at least {SMALLEST_BUFFER} bytes are expected"
            )
        hosts = [Host(name, options.slots) for name in topology.hosts]
        return Found(hosts, topology, str(options.emulate), options.buffer)

    @classmethod
    def introduction(cls, found: Found) -> str:
        return ""

    @cached_property
    def emulation(self) -> Emulation:
        """The hosts, there between entry and exit."""
        return Emulation(self.cluster, self.build / "libblocking.so")

    def __enter__(self) -> Emulated:
        assert self.emulation.preload
        self.tools.compile_preload(self.emulation.preload)
        self.emulation.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.emulation.close()

    @property
    def settings(self) -> Mapping[str, str]:
        return {
            **self.tools.transport(),
            "MPIR_CVAR_NOLOCAL": "1",  # shared memory would be polled by ranks that sleep
            "FI_TCP_IFACE": netns.INTERFACE,
            "UCX_NET_DEVICES": netns.INTERFACE,
            "TMPDIR": str(netns.FOLDER),
            "LD_PRELOAD": str(netns.PRELOAD),
        }

    def argv(self, program: Path) -> list[str]:
        hostfile = str(write_hostfile(self.cluster, self.build))
        words = ["-launcher", "ssh", "-launcher-exec", ENTER]
        words += ["-iface", netns.INTERFACE, "-f", hostfile]
        hydra = mpiexec_argv(self.tools.mpiexec, words, self.cluster, self.settings, program)
        # Hydra starts the first host's ranks itself, so it must run there.
        return self.emulation.on_host(self.cluster.host_of_rank()[0], hydra)

    def sweep(self, program: Path) -> None:
        self.emulation.kill_all()

    def reach(self, host: str) -> list[str]:
        return self.emulation.inside([ENTER, host])

    def dilate(self, dilation: int) -> None:
        self.emulation.dilate(dilation)

    def circumstances(self, inventory: Inventory) -> dict[str, object]:
        return {
            "kernel": platform.release(),
            "tcp": netns.SYSCTLS,
            "network cards": {},
            "congestion control": netns.CONGESTION_CONTROL,
        }
