"""What an algorithm can be told: parameters that are bound when a body is rendered, and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from search.catalogue.expression import evaluate

WALKS: dict[str, Callable[[int], int]] = {"doubling": lambda value: 2 * value or 1}
"""How the candidates of a number follow each other."""


@dataclass(frozen=True)
class Enumerated:
    """A parameter that is bound when a body is rendered."""

    name: str
    values: tuple[str, ...]
    about: str
    optional: bool = False
    """whether a label leaves out the first value"""
    record: tuple[str, ...] = ()
    """values that are kept for the papers' record: they never won, and are not searched unless
    somebody asks"""


@dataclass(frozen=True)
class Number:
    """A parameter that a table's row passes: an integer from ``least``, where the enumerated
    parameters are as in ``when`` (several values of one: any of them).

    ``walk`` lists the values to try, or names a walk, from ``least`` to ``most(p, q)`` for p ranks,
    q on each host; a list may have no most.
    """

    name: str
    least: int
    most: str | None
    walk: str | tuple[int, ...]
    about: str
    when: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...] = ()
    """what its values 0, 1, ... are called in labels, if they have names"""
    optional: bool = False
    """whether a label leaves out the least value; so it does where values have names"""
    apart: bool = False
    """whether its values are as unlike each other as algorithms are, and none stands for all"""
    unlike: str = ""
    """another number: where both are equal, leaving this one out means the same"""
    keeps: str | None = None
    """what a row that sets it uses of that which is kept with a communicator"""

    def text(self, value: int) -> str:
        """A value as it stands in labels."""
        return self.names[value] if self.names else str(value)

    @property
    def range(self) -> str:
        """What it may be, for people."""
        if self.names:
            return ", ".join(self.names)
        if isinstance(self.walk, str):
            return f"{self.least} to {self.most}"
        most = f" to {self.most}" if self.most else ""
        return f"from {self.least}{most}, tried: {', '.join(map(str, self.walk))}"

    def candidates(self, ranks: int, each: int = 1, few: bool = False) -> list[int]:
        """Values to try on so many ranks: those listed, or a walk and the largest; or a few."""
        if few:
            return self.candidates(ranks, each)[: 1 if self.optional else 2]
        if self.most is None:
            return [int(value) for value in self.walk]
        most = int(evaluate(self.most, {"p": ranks, "q": each}))
        if not isinstance(self.walk, str):
            return [value for value in self.walk if value <= max(most, self.least)]
        values = []
        value = self.least
        while value < most:
            values.append(value)
            value = WALKS[self.walk](value)
        return [*values, most] if most >= self.least else []

    def near(self, value: int, ranks: int, each: int = 1) -> list[int]:
        """The candidates beside a value, and what is halfway to them on a walk; of a number with
        names, all others."""
        candidates = self.candidates(ranks, each)
        if self.names:
            return [other for other in candidates if other != value]
        beside = [
            *[other for other in candidates if other < value][-1:],
            *[other for other in candidates if other > value][:1],
        ]
        if isinstance(self.walk, str):
            halfway = [(value + other) // 2 for other in beside]
            beside += [v for v in halfway if v not in (value, *beside)]
        return sorted(beside)
