"""Where the ranks of a communicator are: how a user says it, and what a table must know of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from search.cluster.hostlist import expand
from search.errors import UserError

FORM = (
    "2x4 (hosts and ranks on each), 3+5 (ranks on the first, the second ...) or n[0-3]x2 (these "
    "hosts) is expected"
)


@dataclass(frozen=True)
class Placement:
    """How the ranks of a communicator lie: on so many ``hosts`` (0: not known), ``each`` of which
    has as many (0: hosts differ); and the ``load`` of their busiest cable in nanoseconds for a byte
    to each peer (0: not known)."""

    ranks: int
    hosts: int = 0
    each: int = 0
    load: float = 0.0


def ranks_at(text: str, hosts: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """The ranks of the job that a placement means, where hosts by name have so many in a row;
    UserError if they have not so many."""
    first, start = {}, 0
    for name, slots in hosts:
        first[name] = start
        start += slots
    slots_of = dict(hosts)
    found: list[int] = []
    for name, many in _counts(text, [name for name, _ in hosts]):
        if name not in slots_of:
            raise UserError(f"--placement={text}: there is no host {name}")
        if many > slots_of[name]:
            raise UserError(
                f"--placement={text}: {many} ranks are wanted on {name}, which takes "
                f"{slots_of[name]}"
            )
        found += range(first[name], first[name] + many)
    if len(found) < 2:
        raise UserError(f"--placement={text}: two ranks and more are expected")
    return tuple(sorted(found))


def _counts(text: str, names: Sequence[str]) -> list[tuple[str, int]]:
    """Hosts and how many ranks each shall have."""
    match = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", text)
    if match:
        return _first(text, names, [int(match[2])] * int(match[1]))
    if re.fullmatch(r"[1-9]\d{0,5}(\+[1-9]\d{0,5})+", text):
        return _first(text, names, [int(many) for many in text.split("+")])
    match = re.fullmatch(r"([A-Za-z].*?)(?:x([1-9]\d{0,5}))?", text)
    if not match:
        raise UserError(f"--placement={text}: {FORM}")
    listed = expand(match[1], f"--placement={text}")
    return [(name, int(match[2] or 1)) for name in dict.fromkeys(listed)]


def _first(text: str, names: Sequence[str], many: Sequence[int]) -> list[tuple[str, int]]:
    """The first hosts."""
    if len(many) > len(names):
        raise UserError(f"--placement={text}: {len(many)} hosts are wanted, there are {len(names)}")
    return list(zip(names, many))


def ranges(ranks: Sequence[int]) -> str:
    """Ranks as the measuring job takes them: 0-3,8,8."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(f"{low}-{high}" for low, high in parts)
