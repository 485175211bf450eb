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
    legacy: tuple[str, ...] = ()
    """values that never won, kept because papers have them: searched only if asked for"""


@dataclass(frozen=True)
class Number:
    """A parameter that a table's row passes: an integer from ``min``, where the enumerated
    parameters are as in ``when`` (several values of one: any of them).

    ``candidates`` lists the values to try, or names a walk through them, from ``min`` to ``max``,
    a formula of p ranks, q on each host; a list may have no max.
    """

    name: str
    min: int
    max: str | None
    candidates: str | tuple[int, ...]
    about: str
    when: Mapping[str, tuple[str, ...]]
    labels: tuple[str, ...] = ()
    """what its values 0, 1, ... are called, if they have names"""
    optional: bool = False
    """whether a label leaves out the smallest value; so it does where values have names"""
    categorical: bool = False
    """whether its values are as unlike each other as algorithms are, and none stands for all"""
    unlike: str = ""
    """another number: where both are equal, leaving this one out means the same"""
    keeps: str | None = None
    """what a row that sets it uses of that which is kept with a communicator"""

    def text(self, value: int) -> str:
        """A value as it stands in labels."""
        return self.labels[value] if self.labels else str(value)

    @property
    def range(self) -> str:
        """What it may be, for people."""
        if self.labels:
            return ", ".join(self.labels)
        if isinstance(self.candidates, str):
            return f"{self.min} to {self.max}"
        most = f" to {self.max}" if self.max else ""
        return f"from {self.min}{most}, tried: {', '.join(map(str, self.candidates))}"

    def values(self, ranks: int, each: int = 1, few: bool = False) -> list[int]:
        """Values to try on so many ranks: those listed, or a walk and the largest; or a few."""
        if few:
            return self.values(ranks, each)[: 1 if self.optional else 2]
        if self.max is None:
            return [int(value) for value in self.candidates]
        most = int(evaluate(self.max, {"p": ranks, "q": each}))
        if not isinstance(self.candidates, str):
            return [value for value in self.candidates if value <= max(most, self.min)]
        values = []
        value = self.min
        while value < most:
            values.append(value)
            value = WALKS[self.candidates](value)
        return [*values, most] if most >= self.min else []

    def near(self, value: int, ranks: int, each: int = 1) -> list[int]:
        """The candidates beside a value, and what is halfway to them on a walk; of a number with
        names, all others."""
        candidates = self.values(ranks, each)
        if self.labels:
            return [other for other in candidates if other != value]
        beside = [
            *[other for other in candidates if other < value][-1:],
            *[other for other in candidates if other > value][:1],
        ]
        if isinstance(self.candidates, str):
            halfway = [(value + other) // 2 for other in beside]
            beside += [v for v in halfway if v not in (value, *beside)]
        return sorted(beside)
