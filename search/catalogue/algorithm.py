"""The catalogue: what is in templates/alltoall/, read from each file's front matter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from search.catalogue.expression import as_c, evaluate
from search.errors import UserError
from search.toml import load_toml, load_toml_text

NEEDS: dict[str, Callable[[int], bool]] = {
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


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One template of MPI_Alltoall: its name, source, needs, parameters and cost."""

    name: str
    title: str
    cite: str
    path: Path
    cost: str | Mapping[str, str]
    needs: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    """what its bodies use of that which is kept with a communicator: folders of templates"""
    memory: str | None = None
    memory_is_optional: bool = False
    one_way: bool = False
    """whether what a rank sends and what it receives take their turns, so that both cost"""
    record: bool = False
    """whether it is kept for the papers' record: it never won, and is not searched unless somebody
    asks"""
    enumerated: tuple[Enumerated, ...] = ()
    numbers: tuple[Number, ...] = ()

    @property
    def simplicity(self) -> tuple[Any, ...]:
        """Sorts algorithms simplest first, the library's own before all."""
        return self.name != "native", bool(self.needs), self.memory or "", self.name

    def serves(self, ranks: int) -> bool:
        """Whether its needs are met by so many ranks."""
        return all(NEEDS[need](ranks) for need in self.needs)

    def bodies(self) -> list[Body]:
        """One body for each binding of the enumerated parameters."""
        names = [parameter.name for parameter in self.enumerated]
        choices = itertools.product(*(parameter.values for parameter in self.enumerated))
        return [Body(self, tuple(zip(names, values))) for values in choices]

    def variants(
        self, ranks: int, each: int = 1, few: bool = False, record: bool = False
    ) -> list[Variant]:
        """Every body with every candidate value of its numbers, if it serves so many ranks, each
        host having ``each``; but of its optional parameters only one at a time is not left out, and
        what is kept for the record only with ``record``."""
        if not self.serves(ranks):
            return []
        found = []
        for body in self.bodies():
            if body.is_record and not record:
                continue
            names = [number.name for number in body.numbers]
            for values in itertools.product(
                *(n.candidates(ranks, each, few) for n in body.numbers)
            ):
                changed = [n for n, v in zip(body.numbers, values) if n.optional and v != n.least]
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
    def memory(self) -> str | None:
        """The formula of its scratch, if it has all the parameters that the formula names."""
        formula = self.algorithm.memory
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
    def is_record(self) -> bool:
        """Whether it is kept for the papers' record."""
        kept = {p.name: p.record for p in self.algorithm.enumerated}
        return self.algorithm.record or any(v in kept[name] for name, v in self.binding)

    @property
    def label(self) -> str:
        return make_label(self.algorithm.name, self.shown)

    def siblings(self) -> list[Body]:
        """Bodies of the same algorithm that differ in one enumerated parameter."""
        return [
            other
            for other in self.algorithm.bodies()
            if sum(a != b for a, b in zip(self.binding, other.binding)) == 1
            and (self.is_record or not other.is_record)
        ]

    @property
    def symbol(self) -> str:
        return "_".join(["atall", self.algorithm.name, *(value for _, value in self.shown)])


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
            if not numbers[name].optional or value != numbers[name].least
        )
        return make_label(self.body.algorithm.name, self.body.shown + values)

    @property
    def needs(self) -> tuple[str, ...]:
        return self.body.algorithm.needs

    @property
    def simplicity(self) -> tuple[Any, ...]:
        """Sorts variants as the catalogue does, simplest first."""
        algorithm, bound = self.body.algorithm, dict(self.body.binding)
        places = tuple(p.values.index(bound[p.name]) for p in algorithm.enumerated)
        return algorithm.simplicity, places, tuple(value for _, value in self.values)

    def fits(self, ranks: int, block: int, each: int = 1) -> bool:
        """Whether a communicator keeps the scratch that it needs for a block (bytes to each
        peer), ``each`` host having so many ranks."""
        values = dict(self.values)
        memory, wanted, inner = self.body.memory, 0.0, block
        leaders = min(values.get("leaders", 0), each)
        if leaders and each > 1:
            share = -(-each // leaders)
            wanted = (leaders + 2 * each) * (ranks // each) * share * block + 64
            ranks, inner = ranks // each, each * share * block
        elif self.body.algorithm.memory_is_optional:
            return True
        if memory:
            wanted += evaluate(memory, {"p": ranks, "n": inner, **values})
        return not wanted or (block <= SCRATCH_BLOCK and wanted <= SCRATCH_MOST)

    @property
    def is_coarse(self) -> bool:
        """Whether its numbers are those that stand for all at first: the least ones."""
        least = {number.name: number.least for number in self.body.numbers if not number.apart}
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
        optional = {number.name: number.least for number in self.body.numbers if number.optional}
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
        bodies = [
            b for b in self.body.siblings() if all(n.candidates(ranks, each) for n in b.numbers)
        ]
        found = [*steps, *(self._in(body, ranks) for body in bodies)]
        return [variant for variant in found if not variant.says_twice]

    def _in(self, body: Body, ranks: int) -> Variant:
        """The same numbers in another body, as far as it has them; its first candidates else."""
        known = dict(self.values)
        values = ((n.name, known.get(n.name, n.candidates(ranks)[0])) for n in body.numbers)
        return Variant(body, tuple(values))

    def named(self, name: str) -> str | None:
        """The value of a number with names, by its name; None if the variant has no such one."""
        value = dict(self.values).get(name)
        number = next((n for n in self.body.numbers if n.name == name), None)
        return number.names[value] if number and number.names and value is not None else None


def make_label(name: str, binding: tuple[tuple[str, Any], ...]) -> str:
    """``name(parameter=value,...)``, or the bare name without parameters."""
    inside = ",".join(f"{parameter}={value}" for parameter, value in binding)
    return f"{name}({inside})" if inside else name


class Catalogue:
    """All algorithms of one folder of templates, simplest first: the order is by cost terms."""

    def __init__(self, folder: Path) -> None:
        self.algorithms = sorted(
            (read_algorithm(path) for path in folder.glob("*.c.j2")),
            key=lambda algorithm: algorithm.simplicity,
        )

    @property
    def numbers(self) -> list[Number]:
        """Every numeric parameter once, by name; the loosest least value wins."""
        by_name: dict[str, Number] = {}
        for algorithm in self.algorithms:
            for number in algorithm.numbers:
                known = by_name.get(number.name)
                if known is None or number.least < known.least:
                    by_name[number.name] = number
        return [by_name[name] for name in sorted(by_name)]

    def bodies(self) -> Iterator[Body]:
        for algorithm in self.algorithms:
            yield from algorithm.bodies()

    def variants(
        self,
        ranks: int,
        only: tuple[str, ...] = (),
        few: bool = False,
        each: int = 1,
        record: bool = False,
    ) -> list[Variant]:
        """All variants for so many ranks, ``each`` on a host; ``only`` names algorithms, native
        stays always.

        ``few``: of each number only the first two candidates, of one with names the first.
        ``record``: what is kept for the record, too; that of algorithms that ``only`` names is
        there anyway.
        """
        known = {algorithm.name for algorithm in self.algorithms}
        for name in only:
            if name not in known:
                raise UserError(f"no algorithm {name!r}: there are {', '.join(sorted(known))}")
        return [
            variant
            for algorithm in self.algorithms
            if not only or algorithm.name in (*only, "native")
            for variant in algorithm.variants(ranks, each, few, record or algorithm.name in only)
        ]

    def variant(self, label: str) -> Variant:
        """The variant with this label; UserError if there is none."""
        match = re.fullmatch(r"([a-z_0-9]+)(?:\(([^()]*)\))?", label)
        items = [item for item in (match[2] or "").split(",") if item] if match else []
        given = dict(item.partition("=")[::2] for item in items)
        for body in self.bodies():
            default = {p.name: p.values[0] for p in body.algorithm.enumerated if p.optional}
            must = {number.name for number in body.numbers if not number.optional}
            may = {number.name for number in body.numbers} | dict(body.binding).keys()
            if not match or body.algorithm.name != match[1] or len(given) < len(items):
                continue
            if not must <= given.keys() <= may:
                continue
            if all(given.get(k, default.get(k)) == v for k, v in body.binding):
                values = ((n.name, _number(n, given, label)) for n in body.numbers)
                return Variant(body, tuple(values))
        raise UserError(f"no variant {label!r} in the catalogue: 'make list' shows what there is")


def _number(number: Number, given: Mapping[str, str], label: str) -> int:
    text = given.get(number.name, number.text(number.least))
    if number.names:
        if text not in number.names:
            raise UserError(f"{label!r}: {number.name} is one of {', '.join(number.names)}")
        return number.names.index(text)
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < number.least:
        raise UserError(f"{label!r}: {number.name} is a number from {number.least}")
    return int(text)


def _known(name: str, names: Mapping[str, object]) -> str:
    if name not in names:
        raise KeyError(name)
    return name


def _read_number(name: str, matter: Mapping[str, Any]) -> Number:
    words = tuple(matter.get("names", ()))
    walk: Any = list(range(len(words))) if words else matter["walk"]
    listed = isinstance(walk, list)
    return Number(
        name,
        0 if words else matter["least"],
        matter.get("most") if listed else matter["most"],
        tuple(walk) if listed else _known(walk, WALKS),
        matter["about"],
        {
            key: tuple(value) if isinstance(value, list) else (value,)
            for key, value in matter.get("when", {}).items()
        },
        words,
        bool(words) or matter.get("optional", False),
        matter.get("apart", False),
        matter.get("unlike", ""),
        matter.get("keeps"),
    )


def _shared(folder: Path, matter: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that front matter takes from the folder's shared.toml, by name."""
    names = matter.get("shared", [])
    known = load_toml(folder / "shared.toml") if names else {}
    return {name: known[name] for name in names}


def front_matter(path: Path) -> dict[str, Any]:
    """TOML in a template's first Jinja comment."""
    text = path.read_text(encoding="utf-8")
    match = re.match(r"\{#\n(.*?)#\}", text, re.DOTALL)
    if not match:
        raise UserError(f"{path}: the file begins with no front matter in {{# ... #}}")
    return load_toml_text(match[1], str(path))


def read_algorithm(path: Path) -> Algorithm:
    """Read the front matter of an algorithm's template."""
    matter = front_matter(path)
    name = path.name.split(".", 1)[0]
    try:
        if matter["name"] != name:
            raise UserError(f"{path}: name is {matter['name']!r}, not the file's {name!r}")
        parameters = {**matter.get("params", {}), **_shared(path.parent, matter)}
        found = Algorithm(
            name=name,
            title=matter["title"],
            cite=matter["cite"],
            path=path,
            cost=matter["cost"],
            needs=tuple(_known(need, NEEDS) for need in matter.get("needs", [])),
            keeps=tuple(matter.get("keeps", ())),
            memory=matter.get("memory"),
            memory_is_optional=matter.get("memory_is_optional", False),
            one_way=matter.get("one_way", False),
            record=matter.get("record", False),
            enumerated=tuple(
                Enumerated(
                    key,
                    tuple(p["values"]),
                    p["about"],
                    p.get("optional", False),
                    tuple(p.get("record", ())),
                )
                for key, p in parameters.items()
                if "values" in p
            ),
            numbers=tuple(
                _read_number(key, p) for key, p in parameters.items() if "values" not in p
            ),
        )
    except KeyError as error:
        raise UserError(f"{path}: front matter lacks or does not know {error}") from error
    except (TypeError, AttributeError) as error:
        raise UserError(f"{path}: front matter is not as expected: {error}") from error
    _check_names(found)
    return found


def _check_names(algorithm: Algorithm) -> None:
    """Labels and C are made of names; what scratch it needs must be a formula over numbers."""
    values = [value for p in algorithm.enumerated for value in p.values]
    called = [name for number in algorithm.numbers for name in number.names]
    numbers = [number.name for number in algorithm.numbers]
    parameters = [parameter.name for parameter in algorithm.enumerated]
    for name in (algorithm.name, *parameters, *numbers, *values, *called):
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_]{1,60}", name):
            raise UserError(f"{algorithm.path}: {str(name)[:80]!r} is not a name of a-z, 0-9 and _")
    if algorithm.memory:
        as_c(algorithm.memory, numbers)
