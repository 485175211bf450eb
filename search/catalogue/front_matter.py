"""Front matter: TOML in the first Jinja comment of a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from search.catalogue.algorithm import REQUIREMENTS, Algorithm
from search.catalogue.collective import Collective
from search.catalogue.expression import as_c, evaluate
from search.catalogue.parameter import WALKS, Enumerated, Number
from search.errors import UserError
from search.toml import load_toml, load_toml_text


def _known(name: str, names: Mapping[str, object]) -> str:
    if name not in names:
        raise KeyError(name)
    return name


def _read_number(name: str, matter: Mapping[str, Any]) -> Number:
    words = tuple(matter.get("labels", ()))
    tried: Any = list(range(len(words))) if words else matter["candidates"]
    listed = isinstance(tried, list)
    return Number(
        name,
        0 if words else matter["min"],
        matter.get("max") if listed else matter["max"],
        tuple(tried) if listed else _known(tried, WALKS),
        matter["about"],
        {
            key: tuple(value) if isinstance(value, list) else (value,)
            for key, value in matter.get("when", {}).items()
        },
        words,
        bool(words) or matter.get("optional", False),
        matter.get("categorical", False),
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


def read_algorithm(path: Path, collective: Collective) -> Algorithm:
    """Read the front matter of a template of a collective's algorithm."""
    matter = front_matter(path)
    name = path.name.split(".", 1)[0]
    try:
        if matter["name"] != name:
            raise UserError(f"{path}: name is {matter['name']!r}, not the file's {name!r}")
        parameters = {**matter.get("params", {}), **_shared(path.parent, matter)}
        found = Algorithm(
            collective=collective,
            name=name,
            title=matter["title"],
            cite=matter["cite"],
            path=path,
            cost=matter["cost"],
            requires=tuple(_known(one, REQUIREMENTS) for one in matter.get("requires", [])),
            keeps=tuple(matter.get("keeps", ())),
            fits=matter.get("fits"),
            scratch=matter.get("scratch"),
            scratch_is_optional=matter.get("scratch_is_optional", False),
            half_duplex=matter.get("half_duplex", False),
            legacy=matter.get("legacy", False),
            enumerated=tuple(
                Enumerated(
                    key,
                    tuple(p["values"]),
                    p["about"],
                    p.get("optional", False),
                    tuple(p.get("legacy", ())),
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
    """Labels and C are made of names; what scratch it needs, and where it is of use, must be
    formulas over numbers."""
    values = [value for p in algorithm.enumerated for value in p.values]
    called = [name for number in algorithm.numbers for name in number.labels]
    numbers = [number.name for number in algorithm.numbers]
    parameters = [parameter.name for parameter in algorithm.enumerated]
    for name in (algorithm.name, *parameters, *numbers, *values, *called):
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_]{1,60}", name):
            raise UserError(f"{algorithm.path}: {str(name)[:80]!r} is not a name of a-z, 0-9 and _")
    if algorithm.fits:
        evaluate(algorithm.fits, dict.fromkeys(("p", "n", *numbers), 3))
    if algorithm.scratch:
        as_c(algorithm.scratch, numbers)
