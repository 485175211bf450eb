"""Which hosts fail: those that the launcher names when a job ends, and those that do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from search.cluster.hostlist import Names
from search.cluster.job import JobLost
from search.errors import HostsFailed

MOST_FAILURES = 2


class Health:
    """Counts the failures of hosts. One that fails twice is given up: HostsFailed."""

    def __init__(
        self, hosts: Sequence[str], silent: Callable[[], Mapping[str, str]], pause: float
    ) -> None:
        """``silent`` tells which of the hosts do not answer, and why; they are asked again after
        ``pause`` seconds."""
        self._name_of = Names(hosts).of
        self._host = {self._name_of(host): host for host in hosts}
        self._silent, self._pause = silent, pause
        self._failures: dict[str, list[str]] = {}

    def blame(self, losses: Iterable[JobLost]) -> None:
        """Lost jobs that no variant is to blame for count against the hosts they ended on."""
        for loss in losses:
            host = self._host.get(self._name_of(loss.host))
            if host:
                self._failures.setdefault(host, []).append(loss.why)
        self._give_up()

    def check(self) -> None:
        """See that all hosts answer."""
        for pause in (self._pause, 0.0):
            silent = self._silent()
            if not silent:
                return
            for host, why in silent.items():
                self._failures.setdefault(host, []).append(why)
            self._give_up()
            time.sleep(pause)

    def _give_up(self) -> None:
        bad = {host: why for host, why in self._failures.items() if len(why) >= MOST_FAILURES}
        if not bad:
            return
        host, reasons = next(iter(bad.items()))
        others = f" (and {', '.join([*bad][1:])})" if len(bad) > 1 else ""
        without = ", or --allow-shrink to go on without it" if len(self._host) > 1 else ""
        why = "; ".join(dict.fromkeys(reasons))
        raise HostsFailed(
            f"host {host} failed twice{others}: {why}: mend it and run configure again, which goes "
            f"on where it stopped{without}",
            tuple(bad),
        )
