"""What is kept with a communicator, as far as a file needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from search.catalogue.algorithm import Body, Variant
from search.catalogue.front_matter import front_matter


@dataclass(frozen=True)
class Keeper:
    """What is kept with a communicator: a folder of templates with kept.j2 (its struct) and
    keeping.j2 (set up and released), in whose front matter stands what it needs to be there before
    (``after``), whether it ``wraps`` bodies (wrapping.j2), whether it hashes names of hosts,
    whether it is ``lazy``: set up when a body that keeps it runs for the first time; and whether it
    is of the ``whole`` communicator alone, not of those between hosts."""

    name: str
    after: tuple[str, ...]
    wraps: bool
    hashes: bool
    lazy: bool
    whole: bool


def read_keeper(templates: Path, name: str) -> Keeper:
    """Read its front matter."""
    path = templates / name / "keeping.j2"
    matter = front_matter(path)
    return Keeper(
        name,
        tuple(matter.get("after", ())),
        matter.get("wraps", False),
        matter.get("hashes", False),
        matter.get("lazy", False),
        matter.get("whole", False),
    )


def keepers_for(
    templates: Path,
    bodies: Sequence[Body],
    variants: Sequence[Variant],
    every: bool,
    also: Sequence[str] = (),
) -> list[Keeper]:
    """What is kept for these bodies and variants, or for all that bodies can be told, and ``also``
    these: each behind what it needs, those that wrap bodies last."""
    wanted = [*also]
    wanted += [name for body in bodies for name in body.algorithm.keeps]
    for body in bodies if every else ():
        wanted += [number.keeps for number in body.numbers if number.keeps]
    for variant in variants:
        values = dict(variant.values)
        numbers = (n for n in variant.body.numbers if n.keeps and values.get(n.name, 0))
        wanted += [number.keeps for number in numbers if number.keeps]
    found: dict[str, Keeper] = {}

    def visit(name: str) -> None:
        keeper = read_keeper(templates, name)
        for before in keeper.after:
            visit(before)
        found.setdefault(name, keeper)

    for name in dict.fromkeys(wanted):
        visit(name)
    return sorted(found.values(), key=lambda keeper: keeper.wraps)
