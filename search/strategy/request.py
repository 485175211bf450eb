"""What a strategy and whoever runs it say to each other.

A strategy knows no cluster. It is a generator that yields a request (time these variants once
each at this block), is sent an Answer, and returns when it has seen enough. Whoever runs it, an
MPI job or a replay of recorded samples, it decides the same from the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from search.catalogue.algorithm import Variant
from search.catalogue.collective import DEFAULT
from search.results.cell import REQUEST_SECONDS, Cell
from search.results.samples import Sample
from search.results.workload import Team, Workload

SIZES = (1, 64, 256, *(1024 << i for i in range(9)))
"""Bytes to each peer: the sizes of Faraj and Yuan, section 5."""
QUICK_SIZES = (1, 64, 512, 2048, 8192, 32768, 131072)


@dataclass(frozen=True)
class Failure:
    """Why a variant has no time."""

    reason: str


Outcome = Union[Sample, Failure]


@dataclass(frozen=True)
class Round:
    """Visit each of these variants once, in any order. It ``confirms`` what rounds before it
    found."""

    workload: Workload
    variants: tuple[Variant, ...]
    confirms: bool = False


@dataclass(frozen=True)
class Restart:
    """All rounds so far are void, for this reason."""

    workload: Workload
    reason: str


@dataclass(frozen=True)
class Relaunch:
    """Go on in another job: a claim rests on several launches."""


Request = Union[Round, Restart, Relaunch]


@dataclass(frozen=True)
class Answer:
    """The outcomes of a round, its number within its workload, and the numbers of earlier
    rounds there that have turned out to be void."""

    number: int = -1
    outcomes: Mapping[Variant, Outcome] | None = None
    void: frozenset[int] = frozenset()


Search = Generator[Request, Answer, None]


@dataclass(frozen=True)
class Rules:
    """When a cell (all variants at one block) has been measured well enough."""

    least: int
    """rounds, unless the time budget is used up"""
    most: int
    tolerance: float
    """half width of a median's interval, as a share of the median"""
    budget: float
    """seconds after which a cell ends, once it has a few rounds, on BUDGET_RANKS ranks"""
    launches: int = 1
    confirms: bool = True
    """whether what was found is timed again before it ships"""


@dataclass(frozen=True)
class Expectation:
    """What a model expects of a variant at a block: its score in seconds; ``least`` of it if no
    port ever lost a frame; and whether none can, so that incast cannot prove the model wrong."""

    seconds: float
    least: float
    is_safe: bool


Expects = Callable[[Variant, int], "Expectation | None"]
"""What a model says of a variant at a block; None: nothing."""


def expects_nothing(variant: Variant, block: int) -> Expectation | None:
    """Where there is no model."""
    return None


BUDGET_RANKS = 8

EFFORTS = {
    "quick": Rules(least=6, most=40, tolerance=0.05, budget=0.7, confirms=False),
    "normal": Rules(least=9, most=60, tolerance=0.05, budget=2.0),
    "thorough": Rules(least=9, most=200, tolerance=0.025, budget=15.0, launches=3),
}


Cells = dict[Workload, Cell]


@dataclass(frozen=True)
class Task:
    """What is searched: variants (simplest first, the library's own before all) at sizes (bytes to
    each peer) on so many ranks; ``near`` gives the variants one step away in a parameter."""

    ranks: int
    sizes: tuple[int, ...]
    variants: tuple[Variant, ...]
    rules: Rules
    near: Callable[[Variant], Sequence[Variant]]
    each: int = 1
    """ranks on each host, 1 if hosts differ"""
    least: Callable[[Variant, int], float] = lambda variant, block: 0.0
    """seconds below which a variant cannot be at a block, whatever the network does"""
    expects: Expects = expects_nothing
    between: bool = True
    """whether blocks between the sizes may be timed, too"""
    collective: str = DEFAULT
    placement: str = ""

    @property
    def team(self) -> Team:
        """Who takes part."""
        return Team(self.ranks, self.placement)

    def workload(self, block: int) -> Workload:
        """The key of a block's cell."""
        return Workload(self.ranks, block, self.collective, self.placement)

    def cell(self, cells: Cells, block: int) -> Cell:
        """A block's cell, which is new if there was none."""
        workload = self.workload(block)
        return cells.setdefault(workload, Cell(workload))

    def measured(self, cells: Cells) -> list[Cell]:
        """Its cells that have times."""
        return [
            cell
            for workload, cell in cells.items()
            if workload == self.workload(workload.block) and cell.rounds
        ]

    def at(self, block: int) -> list[Variant]:
        """Those that a block leaves memory for."""
        return [variant for variant in self.variants if variant.fits(self.ranks, block, self.each)]

    def beside(self, variant: Variant, block: int) -> list[Variant]:
        """Those of them that are one step away."""
        return [other for other in self.near(variant) if other.fits(self.ranks, block, self.each)]

    @property
    def budget(self) -> float:
        """Seconds after which a cell ends: more ranks have more variants, and longer calls."""
        return self.rules.budget * max(1.0, self.ranks / BUDGET_RANKS)


def play(
    cell: Cell, variants: Sequence[Variant], confirms: bool = False
) -> Generator[Request, Answer, list[Variant]]:
    """One round; returns the variants that have not failed."""
    answer = yield Round(cell.workload, tuple(variants), confirms)
    take(cell, answer)
    if confirms:
        cell.confirming |= {answer.number}
    return [variant for variant in variants if variant not in cell.failures]


def calls_seconds(samples: Iterable[Sample]) -> float:
    """What visits cost, but for verifying and warming up."""
    return sum(sum(sample.calls) + REQUEST_SECONDS for sample in samples)


def take(cell: Cell, answer: Answer) -> None:
    """Put an answer into a cell, and what it says is void out of it."""
    for variant in list(cell.rounds):
        kept = {n: s for n, s in cell.rounds[variant].items() if n not in answer.void}
        cell.rounds[variant] = kept
        if not kept:
            del cell.rounds[variant]
    for variant, outcome in (answer.outcomes or {}).items():
        if isinstance(outcome, Failure):
            cell.failures[variant] = outcome.reason
            cell.rounds.pop(variant, None)
        else:
            cell.rounds.setdefault(variant, {})[answer.number] = outcome
