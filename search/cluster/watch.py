"""Watches how the processors of this machine spend the time, and when they stall."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

NAP = 2e-3
STALL = 0.02
"""A sleeping process that wakes so many seconds late was kept from it: a hypervisor had the
processors, or somebody's real-time process."""
STALLED_SHARE = 0.05
TELLING_STEAL = 0.05
"""Share of the processors that others had, from which on the output says so."""


class Watch:
    """Context manager: a thread that naps, and notes how late it wakes."""

    def __enter__(self) -> Watch:
        self._stalls: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._before, self._begin = processor_times(), time.monotonic()
        self._thread = threading.Thread(target=self._nap, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._after, self.elapsed = processor_times(), time.monotonic() - self._begin

    def _nap(self) -> None:
        while not self._over.is_set():
            due = time.monotonic() + NAP
            time.sleep(NAP)
            woke = time.monotonic()
            if woke - due > STALL:
                self._stalls.append((due, woke))

    def stalled_since(self, begin: float) -> float:
        """Seconds since some monotonic time in which nothing ran."""
        return sum(end - max(due, begin) for due, end in self._stalls[-8:] if end > begin)

    @property
    def stalled(self) -> float:
        """Seconds in which nothing ran."""
        return sum(end - due for due, end in self._stalls)

    @property
    def stall(self) -> float:
        """How long one is, in seconds: those at least so long take STALLED_SHARE of the time."""
        total = 0.0
        for late in sorted((end - due for due, end in self._stalls), reverse=True):
            total += late
            if total > STALLED_SHARE * self.elapsed:
                return late
        return 0.0

    @property
    def busy(self) -> float:
        """The share of the time in which the processors worked, for whomever."""
        return self._share(lambda times: sum(times) - times[3] - times[4])

    @property
    def steal(self) -> float:
        """The share that the hypervisor gave to others."""
        return self._share(lambda times: times[7])

    def _share(self, part: Callable[[Sequence[int]], int]) -> float:
        total = sum(self._after) - sum(self._before)
        return (part(self._after) - part(self._before)) / total if total else 0.0


def processor_times() -> list[int]:
    """Ticks of the processors that we may use: user, nice, system, idle, waiting for disks,
    interrupts, soft interrupts, steal."""
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    with open("/proc/stat", encoding="ascii") as handle:
        lines = [line.split() for line in handle]
    rows = [[int(word) for word in line[1:9]] for line in lines if line[0] in mine]
    return [sum(column) for column in zip(*rows)]
