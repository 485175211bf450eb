"""packages.py REQUIREMENTS: exit 0 if all its packages are there in fitting versions.

Run by configure before anything is installed: standard library only.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LINE = re.compile(r"([A-Za-z0-9_.-]+)\s*([^;]*)(?:;\s*python_version\s*(<|>=)\s*\"3\.(\d+)\")?")


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers that compare."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def fits(have: str, bounds: str) -> bool:
    """Whether a version is within bounds such as ``>=1.0,<2``; a pin is a wish here: any
    version from the pinned one's major number on that is installed already will do."""
    for bound in filter(None, (part.strip() for part in bounds.split(","))):
        sign, wanted = re.match(r"(==|>=|<)\s*(.*)", bound).groups()  # type: ignore[union-attr]
        if sign == "<" and numbers(have) >= numbers(wanted):
            return False
        if sign == ">=" and numbers(have) < numbers(wanted):
            return False
        if sign == "==" and numbers(have)[0] != numbers(wanted)[0]:
            return False
    return True


def missing(path: Path) -> list[str]:
    """The requirements of a file, and of those it includes, that are not met."""
    found: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#", 1)[0].strip()
        if line.startswith("-r "):
            found += missing(path.parent / line[3:].strip())
            continue
        match = _LINE.fullmatch(line)
        if not match:
            continue
        name, bounds, sign, minor = match.groups()
        if sign and (sys.version_info[1] >= int(minor)) != (sign == ">="):
            continue
        try:
            if not fits(version(name), bounds.strip()):
                found.append(line)
        except PackageNotFoundError:
            found.append(line)
    return found


if __name__ == "__main__":
    lacking = missing(Path(sys.argv[1]))
    print("missing:", ", ".join(lacking) or "nothing")
    sys.exit(1 if lacking else 0)
