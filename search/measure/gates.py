"""Noise gates: is it us alone who use the cluster, and does all of it work?

Pure but for what is remembered: what the hosts looked like at their best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from search.cluster.backend import PROCESSORS, WIRES
from search.results.record import Disturbance
from search.results.samples import Sample

FOREIGN_SHARE = 0.02
"""Traffic of others beyond this share of a host's link makes rounds void."""
OWN_TRAFFIC = 100e3
"""Bytes a second that look foreign where links are slow, and are our own late acknowledgements."""
ASSUMED_MBIT = 1000.0
"""A link whose speed nobody told."""
SLOWER = 1.3
"""A host whose fixed piece of work takes so many times what it took at best is disturbed."""
PREPARED = 12.0
STALL = 5.0
"""Time-outs beyond the usual after which a call with some was an outage."""
COINCIDENCES = 2
"""So often a variant may stall at one place; from then on that is its nature."""


@dataclass
class Gates:
    """What is usual on each host; ``hosts`` names each rank's, ``mbit`` is its link's speed.

    ``watched`` says what is looked at, the wires or the processors: emulated hosts share those of
    one machine, and what a machine that is tuned for itself does besides is its user's business.
    """

    hosts: Sequence[str]
    mbit: Mapping[str, float | None]
    watched: frozenset[str]
    _work: dict[str, float] = field(default_factory=dict)
    _carrier: dict[str, float] = field(default_factory=dict)
    _ticks: dict[str, tuple[float, float]] = field(default_factory=dict)
    _stalled: Counter[tuple[object, str]] = field(default_factory=Counter)

    def look(self, answer: Mapping[str, Any], hosts: Sequence[str] = ()) -> list[str]:
        """What the verb ``quiet`` of the measuring job saw: one line for each trouble. ``hosts``
        names those of the ranks that looked, if these are not the first."""
        hosts = hosts or self.hosts
        ranks = [rank for rank, work in enumerate(answer["work"]) if work >= 0]
        troubles = []
        for rank in ranks if WIRES in self.watched else ():
            troubles += self._wires(hosts[rank], answer["bytes"][rank], answer["carrier"][rank])
        for rank in ranks if PROCESSORS in self.watched else ():
            tasks = answer["tasks"][rank] - answer["spare"][rank]
            troubles += self._processors(hosts[rank], tasks, answer["work"][rank])
        return troubles

    def disturbance(self, answer: Mapping[str, Any], hosts: Sequence[str] = ()) -> Disturbance:
        """What the same look tells of the time since the last one."""
        hosts = hosts or self.hosts
        steal, woke = 0.0, 0.0
        for rank, ticks in enumerate(answer["ticks"]):
            if ticks < 0:
                continue
            stolen = answer["stolen"][rank]
            before, stolen_before = self._ticks.get(hosts[rank], (ticks, stolen))
            if ticks > before:
                steal = max(steal, (stolen - stolen_before) / (ticks - before))
            self._ticks[hosts[rank]] = ticks, stolen
            woke = max(woke, answer["woke"][rank])
        return Disturbance(round(steal, 3), round(woke, 6))

    def _wires(self, host: str, bytes_a_second: float, carrier: float) -> list[str]:
        troubles = []
        rate = (self.mbit.get(host) or ASSUMED_MBIT) * 1e6 / 8
        if bytes_a_second > max(FOREIGN_SHARE * rate, OWN_TRAFFIC):
            foreign = bytes_a_second * 8 / 1e6
            troubles.append(f"host {host}: {foreign:.3g} Mbit/s of foreign traffic")
        if carrier != self._carrier.setdefault(host, carrier):
            troubles.append(f"host {host}: its network link went down or up")
            self._carrier[host] = carrier
        return troubles

    def _processors(self, host: str, tasks: float, work: float) -> list[str]:
        troubles = []
        if tasks > 0:
            troubles.append(f"host {host}: {tasks:.0f} task(s) too many want its processors")
        usual = self._work.setdefault(host, work)
        self._work[host] = min(usual, work)
        if work > SLOWER * usual:
            troubles.append(
                f"host {host}: its processor is {work / usual:.1f} x slower than it was"
            )
        return troubles

    def stall(
        self, key: object, label: str, sample: Sample, usual: float, hosts: Sequence[str] = ()
    ) -> str | None:
        """Whether a visit stalled longer than time-outs alone explain: an outage, unless it
        happens to the same variant again and again at the same place (``key``). ``usual`` is what
        a call takes there; what is shorter than that does not matter. Verifying and warming up may
        take PREPARED of them."""
        worst = max(sample.calls) - usual if sample.resent or sample.timeouts else 0.0
        before = sample.spent - sum(sample.calls) - PREPARED * usual
        longest = max(worst if worst > usual else 0.0, before)
        if longest < STALL * sample.timeout or self._stalled[key, label] == COINCIDENCES:
            return None
        self._stalled[key, label] += 1
        resent = ", ".join((hosts or self.hosts)[rank] for rank, _ in sample.resent[:4])
        where = f" with retransmissions on {resent}" if resent else ""
        more = "..." if len(sample.resent) > 4 else ""
        return f"{label} stalled for {longest:.1f} s{where}{more}: was a link down?"
