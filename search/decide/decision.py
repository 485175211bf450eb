"""Decisions: which variant serves blocks up to which size, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from search.catalogue.algorithm import Variant
from search.cluster.hostlist import name_hash
from search.cluster.placement import Placement
from search.cluster.topology import FASTEST, Topology, flatten
from search.errors import UserError
from search.results.workload import Team
from search.sizes import size_text

Ratio = tuple[float, float, float, float]
"""The median ratio of calls timed together, the ends of its interval, and the ratio of scores."""
BANDWIDTH_BOUND = 0.8
"""Of the bandwidth bound: blocks with less of it depend on more than the wires."""
TELLING = 1.05
"""Ratios of scores and of calls that differ by more than this: one of both meets time-outs."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Why a row has its variant: what was measured at a block (bytes to each peer).

    ``seconds`` is its score; ``native`` and ``ahead`` are the library's own and the runner-up over
    it; ``launches`` counts the jobs in which it was timed, ``disturbed`` the rounds that something
    kept the hosts from; ``modes`` are the medians of two groups of times, where there are two;
    ``undecided`` lists rivals that are not distinguishable from it; ``predicted`` is the score that
    the schedule model expected; ``fell`` led in the search, but not when that was confirmed;
    ``dilation`` is the cluster's.
    """

    block: int
    seconds: float
    native: Ratio | None = None
    runner_up: str | None = None
    ahead: Ratio | None = None
    calls: int = 0
    rounds: int = 0
    retransmissions: int = 0
    of_limit: float | None = None
    modes: tuple[float, float] | None = None
    on_ticks: bool = False
    undecided: tuple[str, ...] = ()
    predicted: float | None = None
    launches: int = 1
    disturbed: int = 0
    fell: str | None = None
    dilation: int = 1

    @property
    def doubts(self) -> list[str]:
        """What is odd about the times."""
        found = []
        if self.modes:
            found.append("two modes, {:.3g} and {:.3g} ms".format(*(1e3 * m for m in self.modes)))
        if self.on_ticks:
            found.append("times on the scheduler's ticks")
        if self.disturbed:
            found.append(f"{self.disturbed} more rounds were disturbed")
        if self.dilation > 1 and (self.of_limit or 0.0) < BANDWIDTH_BOUND:
            found.append(f"a small block, where time is dilated {self.dilation} x")
        if self.fell:
            found.append(f"{self.fell} led in the search, but not when that was confirmed")
        return found

    @property
    def text(self) -> str:
        """The evidence in one line."""
        parts = []
        if self.native:
            parts.append(f"{ratio_text(self.native)} x native")
        if self.runner_up and self.ahead:
            close = ", not distinguishable" if self.runner_up in self.undecided else ""
            parts.append(f"{ratio_text(self.ahead)} x {self.runner_up}{close}")
        return "; ".join(
            [
                f"at {size_text(self.block)}: {' and '.join(parts) or 'alone'}",
                *([f"{self.of_limit:.0%} of the bandwidth bound"] if self.of_limit else []),
                f"{self.calls} calls, {self.retransmissions} retransmissions",
                *self.doubts,
            ]
        )


def ratio_text(ratio: Ratio) -> str:
    """A ratio and its interval, for people."""
    median, low, high, scores = ratio
    is_telling = not median / TELLING < scores < median * TELLING
    with_timeouts = f"; with time-outs {scores:.2f}" if is_telling else ""
    return f"{median:.2f} ({low:.2f}-{high:.2f}{with_timeouts})"


@dataclass(frozen=True)
class Cutoff:
    """One row: up to ``most`` bytes to each peer (None: any) this variant, because of what was
    measured, or of what somebody says."""

    most: int | None
    variant: Variant
    said: str = ""
    evidence: Evidence | None = None

    @property
    def why(self) -> str:
        """The reason in one line."""
        return self.evidence.text if self.evidence else self.said


FAR_RANKS = 2.0
FAR_EACH = 1.5
FAR_LOAD = 1.5
"""So many times as many ranks, ranks a host, or load for each peer are too far for a table."""
_ANY, _NOT, _BEHIND = 1e6, 1e9, 1e3


@dataclass(frozen=True)
class DecisionTable:
    """Rows for communicators as the one on which they were measured: ``ranks`` (0: nothing was
    measured), on so many ``hosts`` (0: not known) with ``each`` ranks (0: not the same number on
    all), and the ``load`` of their busiest cable in ns for a byte to each peer (0: not known)."""

    ranks: int
    cutoffs: tuple[Cutoff, ...]
    hosts: int = 0
    each: int = 0
    load: float = 0.0
    placement: str = ""
    """as --placement says it"""

    @property
    def team(self) -> Team:
        """On whom it was measured."""
        return Team(self.ranks, self.placement)

    @property
    def title(self) -> str:
        """What it was measured on, for people."""
        if not self.ranks:
            return "all numbers of ranks"
        if not self.hosts:
            return f"{self.ranks} ranks"
        placed = f" ({self.placement})" if self.placement else ""
        return f"{self.ranks} ranks on {self.hosts} host{'s' * (self.hosts > 1)}{placed}"

    def distance(self, here: Placement) -> float:
        """How far it is from a communicator, as the emitted file has it (runtime/state.j2)."""
        if not self.ranks:
            return _ANY
        ranks = _ratio(self.ranks, here.ranks)
        if not self.hosts or not here.hosts:
            return ranks
        if (self.hosts == 1) != (here.hosts == 1):
            return _NOT
        each = _ratio(self.ranks / self.hosts, here.ranks / here.hosts)
        load = 1.0
        if self.load > 0 and here.load > 0:
            load = _ratio(self.load / (self.ranks - 1), here.load / (here.ranks - 1))
        if ranks > FAR_RANKS or each > FAR_EACH or load > FAR_LOAD:
            return _NOT
        is_alike = (self.hosts, self.each) == (here.hosts, here.each)
        return max(ranks, each, load) - _BEHIND * is_alike

    @property
    def requires(self) -> frozenset[str]:
        """What its rows together need of a communicator."""
        return frozenset(one for cutoff in self.cutoffs for one in cutoff.variant.requires)

    def choice(self, block: int) -> Variant:
        """The variant that serves a block."""
        return next(c.variant for c in self.cutoffs if c.most is None or block <= c.most)

    def serves(self, here: Placement) -> bool:
        """Whether all its rows can serve a communicator on hosts of the tree."""
        has_leaders = here.each > 1 or not here.hosts
        return all(c.variant.body.algorithm.serves(here.ranks) for c in self.cutoffs) and (
            has_leaders or "leaders" not in self.requires
        )

    def check(self, source: str) -> None:
        """Raise UserError unless blocks increase and only the last row is unbounded."""
        sizes = [cutoff.most for cutoff in self.cutoffs]
        bounded = [size for size in sizes if size is not None]
        where = f"{source}: table for {self.title}"
        if not 0 <= self.each * self.hosts <= self.ranks or self.hosts > self.ranks:
            raise UserError(f"{where}: {self.hosts} hosts with {self.each} ranks are not so many")
        if not sizes or sizes[-1] is not None or len(bounded) != len(sizes) - 1:
            raise UserError(f"{where}: the last row, and no other, has no 'most'")
        if any(a >= b for a, b in zip(bounded, bounded[1:])) or min(bounded, default=1) < 1:
            raise UserError(f"{where}: 'most' must grow from row to row, from 1")
        for cutoff in self.cutoffs:
            if self.ranks and not cutoff.variant.body.algorithm.serves(self.ranks):
                raise UserError(f"{where}: {cutoff.variant.label} cannot serve so many ranks")


@dataclass(frozen=True)
class TreeNode:
    """A node of the tree: its parent's number (-1: the top), the speed of the cable to it in Mbit/s
    (of all 1 where they are not known), and its host's 64-bit hash (0: a switch)."""

    parent: int
    speed: int
    host: int


def hashed_tree(topology: Topology) -> tuple[TreeNode, ...]:
    """A topology as it may stand in an emitted file: no names."""
    name_of = topology.names.of
    return tuple(
        TreeNode(node.parent, node.speed, name_hash(name_of(node.host)) if node.host else 0)
        for node in flatten(topology)
    )


def _ratio(one: float, other: float) -> float:
    return max(one / other, other / one)


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where a decision was tuned: with which library, on how many ranks of which hosts (by hash);
    and what a reader of its figures must know: the interference that was accepted (``noise``), how
    much slower time passed (``dilation``), the share of the processors that others had
    (``steal``)."""

    library: str = "?"
    ranks: int = 0
    grid: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    fingerprint: str = "?"
    noise: str = ""
    dilation: str = ""
    steal: float | None = None


@dataclass(frozen=True)
class Decision:
    """All tables of one file, nearest match first; the last one serves every communicator."""

    tables: tuple[DecisionTable, ...]
    tuned: Origin | None = None
    tree: tuple[TreeNode, ...] = ()
    """the cluster's switch tree: parents first, hosts by hash"""

    @property
    def rows(self) -> list[Cutoff]:
        """Those of all tables."""
        return [cutoff for table in self.tables for cutoff in table.cutoffs]

    def table(self, here: Placement) -> DecisionTable:
        """The table that serves a communicator on hosts of the tree, as the emitted file chooses:
        the nearest of those all of whose rows can."""
        fitting = [t for t in self.tables if t is self.tables[-1] or t.serves(here)]
        return min(fitting, key=lambda table: table.distance(here))

    def check(self, source: str) -> None:
        """Raise UserError unless dispatch over these tables is total."""
        for table in self.tables:
            table.check(source)
        for number, node in enumerate(self.tree):
            if not -1 <= node.parent < max(number, 0) or (node.parent < 0) != (number == 0):
                raise UserError(f"{source}: tree: node {number} does not come after its parent")
            if not 1 <= node.speed <= FASTEST:
                raise UserError(f"{source}: tree: node {number} has no speed")
        if not self.tables or self.tables[-1].requires:
            raise UserError(
                f"{source}: the last table serves every communicator: its rows must need nothing"
            )


def merge_equal(cutoffs: Sequence[Cutoff]) -> tuple[Cutoff, ...]:
    """Join neighbouring rows of the same variant; the first one's reason stays."""
    merged: list[Cutoff] = []
    for cutoff in cutoffs:
        if merged and merged[-1].variant == cutoff.variant:
            merged[-1] = replace(merged[-1], most=cutoff.most)
        else:
            merged.append(cutoff)
    return tuple(merged)
