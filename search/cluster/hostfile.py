"""Files that list hosts."""

from __future__ import annotations

import re
from pathlib import Path

from search.cluster.hostlist import Names, expand
from search.cluster.hosts import Host
from search.errors import UserError

SLOT_WORDS = ("slots", "max_slots", "max-slots")
"""Of Open MPI's host files; the most there may be says nothing of how many are wanted."""


def read_hostfile(path: Path) -> list[Host]:
    """Hosts and their slots, a line each: ``host:slots`` as Hydra has it, ``host slots=4`` as Open
    MPI has it, or ``host``; hosts may be a list such as ``n[1-4]``. ``#`` begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"cannot read host file {path}: {reason}") from error
    hosts: list[Host] = []
    known = Names()
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        names, colon, slots = words[0].partition(":")
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if key not in SLOT_WORDS or not equals or colon:
                raise UserError(
                    f"{where}: {word[:40]!r} found where slots=NUMBER or nothing is expected"
                )
            slots = value if key == "slots" else slots
        if not re.fullmatch(r"[1-9]\d{0,4}", slots or "1"):
            raise UserError(f"{where}: {slots[:40]!r} found where a number of slots is expected")
        for name in expand(names, where):
            twin = known.add(name)
            if twin:
                raise UserError(
                    f"{where}: host {name} is listed twice: use host:slots"
                    if twin.lower() == name.lower()
                    else f"{where}: {name} and {twin} may be one host: write both in full if they "
                    "are two, else one of them with host:slots"
                )
            hosts.append(Host(name, int(slots or 1)))
    if not hosts:
        raise UserError(f"{path}: no host found: lines such as node1:4 are expected")
    return hosts
