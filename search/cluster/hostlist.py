"""Host names, and Slurm's compressed lists of them: ``n[0-3,12]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from search.errors import UserError

MOST_HOSTS = 65536
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}\Z")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?\Z")


def check_name(name: str, where: str) -> str:
    """Return ``name`` if it is a plain host or switch name, else raise UserError."""
    if not _NAME.match(name):
        raise UserError(
            f"{where}: {name[:80]!r} is not a name: letters, digits, '.', '_' and '-' are expected"
        )
    return name


def short_name(host: str) -> str:
    """A host's name in lower case, without its domain; an address (IPv4) is no name with a
    domain."""
    if _ADDRESS.match(host):
        return host
    return host.split(".", 1)[0].lower()


class Names:
    """The names by which a cluster's hosts are known everywhere: short ones, but in full, in lower
    case, where several have the same short one."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._alike: dict[str, list[str]] = {}
        for host in hosts:
            self.add(host)

    def add(self, host: str) -> str | None:
        """Take a host in, or tell which of those that are there it is: hosts with the same short
        name are two only if both names are full."""
        short = short_name(host)
        alike = self._alike.setdefault(short, [])
        for other in alike:
            if host.lower() == other.lower() or short in (host.lower(), other.lower()):
                return other
        alike.append(host)
        return None

    def of(self, host: str) -> str:
        """The name by which a host is known."""
        short = short_name(host)
        return host.lower() if len(self._alike.get(short, ())) > 1 else short


def name_hash(name: str) -> int:
    """64-bit FNV-1a of the name by which a host is known: how it appears in emitted files."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def expand(text: str, where: str) -> list[str]:
    """Expand ``a,n[0-3,12],r[0-1]n[08-10]`` into names, zero padding kept.

    Raises UserError for anything else, and for more than MOST_HOSTS names.
    """
    names: list[str] = []
    for item in _split(text, where):
        names += _expand_item(item, where, MOST_HOSTS - len(names))
    return names


def _split(text: str, where: str) -> list[str]:
    """Split at the commas that stand outside brackets."""
    if re.search(r"\[[^\]]*(\[|\Z)|\A[^\[]*\]", text):
        raise UserError(f"{where}: brackets do not match in {text[:80]!r}")
    items = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)
    if ",".join(items) != text:
        raise UserError(f"{where}: {text[:80]!r} is not a list such as n[0-3],m1")
    return items


def _expand_item(item: str, where: str, most: int) -> list[str]:
    found = _BRACKETS.search(item)
    if not found:
        if most < 1:
            raise UserError(f"{where}: more than {MOST_HOSTS} names")
        return [check_name(item, where)]
    numbers: list[str] = []
    for part in found.group(1).split(","):
        numbers += _numbers(part, where, most - len(numbers))
    names: list[str] = []
    for number in numbers:
        rest = item[: found.start()] + number + item[found.end() :]
        names += _expand_item(rest, where, most - len(names))
    return names


def _numbers(part: str, where: str, most: int) -> list[str]:
    bounds = _RANGE.match(part)
    if not bounds:
        raise UserError(f"{where}: {part[:80]!r} is not a range such as 0-3")
    first = bounds.group(1)
    last = bounds.group(2) or first
    count = int(last) - int(first) + 1
    if count < 1:
        raise UserError(f"{where}: the range {part} runs backwards")
    if count > most:
        raise UserError(f"{where}: more than {MOST_HOSTS} names")
    return [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
