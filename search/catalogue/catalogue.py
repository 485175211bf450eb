"""The catalogue of a collective: its algorithms, and their variants by label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from search.catalogue.algorithm import Body, Variant
from search.catalogue.collective import DESCRIPTOR, read_collective
from search.catalogue.front_matter import read_algorithm
from search.catalogue.parameter import Number
from search.errors import UserError


class Catalogue:
    """All algorithms of one folder of templates, simplest first: the order is by cost terms."""

    def __init__(self, folder: Path) -> None:
        self.collective = read_collective(folder)
        self.algorithms = sorted(
            (read_algorithm(path, self.collective) for path in folder.glob("*.c.j2")),
            key=lambda algorithm: algorithm.simplicity,
        )

    @property
    def native(self) -> Variant:
        """The library's own, the reference."""
        return self.variant(self.collective.native)

    def bodies(self) -> Iterator[Body]:
        for algorithm in self.algorithms:
            yield from algorithm.bodies()

    def variants(
        self,
        ranks: int,
        only: tuple[str, ...] = (),
        few: bool = False,
        each: int = 1,
        legacy: bool = False,
    ) -> list[Variant]:
        """All variants for so many ranks, ``each`` on a host; ``only`` names algorithms, native
        stays always.

        ``few``: of each number only the first two candidates, of one with names the first.
        ``legacy``: what is legacy, too; that of algorithms that ``only`` names is there anyway.
        """
        known = {algorithm.name for algorithm in self.algorithms}
        for name in only:
            if name not in known:
                raise UserError(f"no algorithm {name!r}: there are {', '.join(sorted(known))}")
        return [
            variant
            for algorithm in self.algorithms
            if not only or algorithm.name in only or algorithm.is_native
            for variant in algorithm.variants(ranks, each, few, legacy or algorithm.name in only)
        ]

    def contention_free(self, ranks: int) -> Variant:
        """The simplest variant whose cost has no term for contention."""
        return next(variant for variant in self.variants(ranks) if variant.is_contention_free)

    def variant(self, label: str) -> Variant:
        """The variant with this label; UserError if there is none."""
        match = re.fullmatch(r"([a-z_0-9/]+)(?:\(([^()]*)\))?", label)
        items = [item for item in (match[2] or "").split(",") if item] if match else []
        given = dict(item.partition("=")[::2] for item in items)
        for body in self.bodies():
            default = {p.name: p.values[0] for p in body.algorithm.enumerated if p.optional}
            must = {number.name for number in body.numbers if not number.optional}
            may = {number.name for number in body.numbers} | dict(body.binding).keys()
            if not match or body.algorithm.label != match[1] or len(given) < len(items):
                continue
            if not must <= given.keys() <= may:
                continue
            if all(given.get(k, default.get(k)) == v for k, v in body.binding):
                values = ((n.name, _number(n, given, label)) for n in body.numbers)
                return Variant(body, tuple(values))
        raise UserError(f"no variant {label!r} in the catalogue: 'make list' shows what there is")


def every_catalogue(templates: Path) -> list[Catalogue]:
    """Those of all collectives, by name."""
    return [Catalogue(path.parent) for path in sorted(templates.glob(f"*/{DESCRIPTOR}"))]


def numbers_of(bodies: Iterable[Body]) -> list[Number]:
    """Every numeric parameter of bodies once, by name; the loosest least value wins."""
    by_name: dict[str, Number] = {}
    for body in bodies:
        for number in body.numbers:
            known = by_name.get(number.name)
            if known is None or number.min < known.min:
                by_name[number.name] = number
    return [by_name[name] for name in sorted(by_name)]


def _number(number: Number, given: Mapping[str, str], label: str) -> int:
    text = given.get(number.name, number.text(number.min))
    if number.labels:
        if text not in number.labels:
            raise UserError(f"{label!r}: {number.name} is one of {', '.join(number.labels)}")
        return number.labels.index(text)
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < number.min:
        raise UserError(f"{label!r}: {number.name} is a number from {number.min}")
    return int(text)
