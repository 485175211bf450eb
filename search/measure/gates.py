"""Noise gates: is it us alone who use the cluster, and does all of it work?

Pure but for what is remembered: what the hosts looked like at their best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from search.cluster.backend import PROCESSORS, WIRES
from search.results.record import Disturbance
from search.results.samples import Sample
from search.results.workload import Team, Workload

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
    """What is usual on each host; ``hosts_of`` names those of a team's ranks, ``mbit`` is the speed
    of a host's link.

    ``watched`` says what is looked at, the wires or the processors: emulated hosts share those of
    one machine, and what a machine that is tuned for itself does besides is its user's business.
    """

    hosts_of: Callable[[Team], Sequence[str]]
    mbit: Mapping[str, float | None]
    watched: frozenset[str]
    _work: dict[str, float] = field(default_factory=dict)
    _carrier: dict[str, float] = field(default_factory=dict)
    _ticks: dict[str, tuple[float, float]] = field(default_factory=dict)
    _stalled: Counter[tuple[Workload, str]] = field(default_factory=Counter)

    def look(self, answer: Mapping[str, Any], team: Team) -> list[str]:
        """What the verb ``quiet`` of the measuring job saw: one line for each trouble."""
        hosts = self.hosts_of(team)
        ranks = [rank for rank, work in enumerate(answer["work"]) if work >= 0]
        troubles = []
        for rank in ranks if WIRES in self.watched else ():
            troubles += self._wires(hosts[rank], answer["bytes"][rank], answer["carrier"][rank])
        for rank in ranks if PROCESSORS in self.watched else ():
            tasks = answer["tasks"][rank] - answer["spare"][rank]
            troubles += self._processors(hosts[rank], tasks, answer["work"][rank])
        return troubles

    def disturbance(self, answer: Mapping[str, Any], team: Team) -> Disturbance:
        """What the same look tells of the time since the last one."""
        hosts = self.hosts_of(team)
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

    def stall(self, workload: Workload, label: str, sample: Sample, usual: float) -> str | None:
        """Whether a visit stalled longer than time-outs alone explain: an outage, unless it
        happens to the same variant again and again at the same place. ``usual`` is what
        a call takes there; what is shorter than that does not matter. Verifying and warming up may
        take PREPARED of them."""
        worst = max(sample.calls) - usual if sample.resent or sample.timeouts else 0.0
        before = sample.spent - sum(sample.calls) - PREPARED * usual
        longest = max(worst if worst > usual else 0.0, before)
        if longest < STALL * sample.timeout or self._stalled[workload, label] == COINCIDENCES:
            return None
        self._stalled[workload, label] += 1
        hosts = self.hosts_of(workload.team)
        resent = ", ".join(hosts[rank] for rank, _ in sample.resent[:4])
        where = f" with retransmissions on {resent}" if resent else ""
        more = "..." if len(sample.resent) > 4 else ""
        return f"{label} stalled for {longest:.1f} s{where}{more}: was a link down?"
