"""This machine alone, where no cluster is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.cluster.backend import Backend, Found
from search.cluster.hostlist import short_name
from search.cluster.hosts import Host, wanted_ranks
from search.cluster.hydra import mpiexec_argv
from search.cluster.slurm import takes_srun
from search.cluster.topology_file import topology_of


class Local(Backend):
    """One host, with a slot for each processor or wanted rank."""

    word = "local"
    on_this_machine = True
    watched = frozenset()
    places_ranks = False
    is_named = False

    @classmethod
    def is_meant(cls, options: Any, environment: Mapping[str, str]) -> bool:
        is_named = options.emulate or options.hostfile or takes_srun(options, environment)
        return not is_named and options.launcher in (None, cls.launcher)

    @classmethod
    def find(cls, options: Any, environment: Mapping[str, str]) -> Found:
        slots = wanted_ranks(options) or os.cpu_count() or 1
        hosts = [Host(short_name(os.uname().nodename), slots)]
        return Found(hosts, *topology_of(options.topology, hosts))

    @classmethod
    def introduction(cls, found: Found) -> str:
        return "no cluster named: tuning for this machine alone (--hostfile or --emulate name one)"

    def argv(self, program: Path) -> list[str]:
        return mpiexec_argv(self.tools.mpiexec, [], self.cluster, self.settings, program)
