"""An algorithm, its bodies, and their variants: what can be measured, and named by a label."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from search.catalogue.collective import Collective
from search.catalogue.expression import evaluate
from search.catalogue.parameter import Enumerated, Number

REQUIREMENTS: dict[str, Callable[[int], bool]] = {
    "power_of_two": lambda ranks: ranks & (ranks - 1) == 0,
    "topology": lambda ranks: True,  # the cluster that is tuned has a tree
}
"""What an algorithm may need of a communicator, as far as its number of ranks tells."""

COST_TERMS = ("alpha", "beta", "gamma", "theta", "delta_l", "delta_h")
"""What costs are made of, beside numbers of ranks, bytes and phases."""

SCRATCH_BLOCK = 1 << 20
"""Scratch is kept for blocks of up to so many bytes to each peer."""
SCRATCH_MOST = 1 << 26
"""Bytes of scratch that a communicator keeps on a rank at the most."""


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One template of a collective: its name, source, needs, parameters and cost."""

    collective: Collective
    name: str
    title: str
    cite: str
    path: Path
    cost: str | Mapping[str, str]
    requires: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    """what its bodies use of that which is kept with a communicator: folders of templates"""
    fits: str | None = None
    """a formula over p, n and its numbers: it is of no use where that is 0"""
    scratch: str | None = None
    scratch_is_optional: bool = False
    half_duplex: bool = False
    """whether what a rank sends and what it receives take their turns, so that both cost"""
    legacy: bool = False
    """whether it never won, and is kept because papers have it: searched only if asked for"""
    enumerated: tuple[Enumerated, ...] = ()
    numbers: tuple[Number, ...] = ()

    @property
    def label(self) -> str:
        """How the labels of its variants begin."""
        return self.collective.prefix + self.name

    @property
    def is_native(self) -> bool:
        """Whether it is the library's own, the reference."""
        return self.label == self.collective.native

    @property
    def simplicity(self) -> tuple[Any, ...]:
        """Sorts algorithms simplest first, the library's own before all."""
        return not self.is_native, bool(self.requires), self.scratch or "", self.name

    def serves(self, ranks: int) -> bool:
        """Whether its requirements are met by so many ranks."""
        return all(REQUIREMENTS[one](ranks) for one in self.requires)

    def bodies(self) -> list[Body]:
        """One body for each binding of the enumerated parameters."""
        names = [parameter.name for parameter in self.enumerated]
        choices = itertools.product(*(parameter.values for parameter in self.enumerated))
        return [Body(self, tuple(zip(names, values))) for values in choices]

    def variants(
        self, ranks: int, each: int = 1, few: bool = False, legacy: bool = False
    ) -> list[Variant]:
        """Every body with every candidate value of its numbers, if it serves so many ranks, each
        host having ``each``; but of its optional parameters only one at a time is not left out, and
        what is legacy only with ``legacy``."""
        if not self.serves(ranks):
            return []
        found = []
        for body in self.bodies():
            if body.is_legacy and not legacy:
                continue
            names = [number.name for number in body.numbers]
            for values in itertools.product(*(n.values(ranks, each, few) for n in body.numbers)):
                changed = [n for n, v in zip(body.numbers, values) if n.optional and v != n.min]
                variant = Variant(body, tuple(zip(names, values)))
                if len(changed) + len(body.options) <= 1 and not variant.says_twice:
                    found.append(variant)
        return found


@dataclass(frozen=True)
class Body:
    """One C function: an algorithm with its enumerated parameters bound."""

    algorithm: Algorithm = field(repr=False)
    binding: tuple[tuple[str, str], ...]

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """The numeric parameters that this body has."""
        bound = dict(self.binding)
        return tuple(
            number
            for number in self.algorithm.numbers
            if all(bound[name] in values for name, values in number.when.items())
        )

    @property
    def scratch(self) -> str | None:
        """The formula of its scratch, if it has all the parameters that the formula names."""
        formula = self.algorithm.scratch
        names = {"p", "n", *(number.name for number in self.numbers)}
        return formula if formula and set(re.findall(r"[a-z_]+", formula)) <= names else None

    @property
    def cost(self) -> str:
        """Its formula in the model's terms; front matter may have one for each value of a
        parameter, or for a pattern of values."""
        cost = self.algorithm.cost
        if isinstance(cost, str):
            return cost
        values = [value for _, value in self.binding]
        return next(c for key, c in cost.items() if any(fnmatchcase(v, key) for v in values))

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """The optional parameters that a label does not leave out."""
        first = {p.name: p.values[0] for p in self.algorithm.enumerated if p.optional}
        return tuple((name, v) for name, v in self.binding if first.get(name, v) != v)

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The parameters that stand in its label."""
        must = {p.name for p in self.algorithm.enumerated if not p.optional}
        return tuple(item for item in self.binding if item[0] in must or item in self.options)

    @property
    def is_legacy(self) -> bool:
        """Whether it never won, and is kept because papers have it."""
        kept = {p.name: p.legacy for p in self.algorithm.enumerated}
        return self.algorithm.legacy or any(v in kept[name] for name, v in self.binding)

    @property
    def label(self) -> str:
        return make_label(self.algorithm.label, self.shown)

    def siblings(self) -> list[Body]:
        """Bodies of the same algorithm that differ in one enumerated parameter."""
        return [
            other
            for other in self.algorithm.bodies()
            if sum(a != b for a, b in zip(self.binding, other.binding)) == 1
            and (self.is_legacy or not other.is_legacy)
        ]

    @property
    def symbol(self) -> str:
        words = [self.algorithm.label.replace("/", "_"), *(value for _, value in self.shown)]
        return "_".join(["atall", *words])


@dataclass(frozen=True)
class Variant:
    """A body with one value for each of its numbers; its label names it one to one."""

    body: Body
    values: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        numbers = {number.name: number for number in self.body.numbers}
        values = tuple(
            (name, numbers[name].text(value))
            for name, value in self.values
            if not numbers[name].optional or value != numbers[name].min
        )
        return make_label(self.body.algorithm.label, self.body.shown + values)

    @property
    def requires(self) -> frozenset[str]:
        """What a communicator must have: what its algorithm requires, and what is kept for its
        numbers."""
        values = dict(self.values)
        kept = (n.keeps for n in self.body.numbers if n.keeps and values.get(n.name, 0))
        return frozenset((*self.body.algorithm.requires, *kept))

    @property
    def simplicity(self) -> tuple[Any, ...]:
        """Sorts variants as the catalogue does, simplest first."""
        algorithm, bound = self.body.algorithm, dict(self.body.binding)
        places = tuple(p.values.index(bound[p.name]) for p in algorithm.enumerated)
        return algorithm.simplicity, places, tuple(value for _, value in self.values)

    def fits(self, ranks: int, block: int, each: int = 1) -> bool:
        """Whether it is of use for a block (bytes to each peer), and a communicator keeps the
        scratch that it needs for it, ``each`` host having so many ranks."""
        values, useful = dict(self.values), self.body.algorithm.fits
        if useful and not evaluate(useful, {"p": ranks, "n": block, **values}):
            return False
        memory, wanted, inner = self.body.scratch, 0.0, block
        leaders = min(values.get("leaders", 0), each)
        if leaders and each > 1:
            share = -(-each // leaders)
            wanted = (leaders + 2 * each) * (ranks // each) * share * block + 64
            ranks, inner = ranks // each, each * share * block
        elif self.body.algorithm.scratch_is_optional:
            return True
        if memory:
            wanted += evaluate(memory, {"p": ranks, "n": inner, **values})
        return not wanted or (block <= SCRATCH_BLOCK and wanted <= SCRATCH_MOST)

    @property
    def is_coarse(self) -> bool:
        """Whether its numbers are those that stand for all at first: the least ones."""
        least = {number.name: number.min for number in self.body.numbers if not number.categorical}
        return all(value == least.get(name, value) for name, value in self.values)

    @property
    def says_twice(self) -> bool:
        """Whether a number is what it should be unlike: a shorter label means the same."""
        values = dict(self.values)
        return any(
            number.unlike and values[number.name] == values[number.unlike]
            for number in self.body.numbers
        )

    @property
    def plain(self) -> Variant:
        """The same with all optional parameters left out."""
        optional = {number.name: number.min for number in self.body.numbers if number.optional}
        first = {p.name: p.values[0] for p in self.body.algorithm.enumerated if p.optional}
        binding = tuple((name, first.get(name, value)) for name, value in self.body.binding)
        values = tuple((name, optional.get(name, value)) for name, value in self.values)
        return Variant(Body(self.body.algorithm, binding), values)

    def sent(self, ranks: int, block: int) -> float:
        """Bytes that its cost says the busiest rank sends; with leaders 0, since it says nothing of
        what crosses the network then."""
        if dict(self.values).get("leaders"):
            return 0.0
        names = {"p": ranks, "n": block, "phases": ranks - 1, **dict(self.values)}
        return evaluate(self.body.cost, {**dict.fromkeys(COST_TERMS, 0.0), "beta": 1.0, **names})

    @property
    def is_contention_free(self) -> bool:
        """Whether its cost has no term for contention."""
        return "gamma" not in self.body.cost

    @property
    def kind(self) -> tuple[str, bool]:
        """Its family, and whether something keeps its steps apart."""
        return self.body.algorithm.name, dict(self.body.binding).get("sync", "none") != "none"

    def near(self, ranks: int, each: int = 1) -> list[Variant]:
        """Those that differ in one parameter: in a number by one step, or by half a step of a walk;
        in what is bound by any other value, with the numbers that both bodies have."""
        numbers = {number.name: number for number in self.body.numbers}
        steps = [
            Variant(self.body, (*self.values[:place], (name, step), *self.values[place + 1 :]))
            for place, (name, value) in enumerate(self.values)
            for step in numbers[name].near(value, ranks, each)
        ]
        bodies = [b for b in self.body.siblings() if all(n.values(ranks, each) for n in b.numbers)]
        found = [*steps, *(self._in(body, ranks) for body in bodies)]
        return [variant for variant in found if not variant.says_twice]

    def _in(self, body: Body, ranks: int) -> Variant:
        """The same numbers in another body, as far as it has them; its first candidates else."""
        known = dict(self.values)
        values = ((n.name, known.get(n.name, n.values(ranks)[0])) for n in body.numbers)
        return Variant(body, tuple(values))

    def named(self, name: str) -> str | None:
        """The value of a number with names, by its name; None if the variant has no such one."""
        value = dict(self.values).get(name)
        number = next((n for n in self.body.numbers if n.name == name), None)
        return number.labels[value] if number and number.labels and value is not None else None


def make_label(name: str, binding: tuple[tuple[str, Any], ...]) -> str:
    """``name(parameter=value,...)``, or the bare name without parameters."""
    inside = ",".join(f"{parameter}={value}" for parameter, value in binding)
    return f"{name}({inside})" if inside else name
