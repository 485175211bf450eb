"""Front matter: TOML in the first Jinja comment of a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from search.catalogue.algorithm import REQUIREMENTS, Algorithm
from search.catalogue.collective import Collective
from search.catalogue.expression import as_c, evaluate
from search.catalogue.parameter import WALKS, Enumerated, Number
from search.errors import UserError
from search.toml import load_toml, load_toml_text

T = TypeVar("T")


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    """What may stand in front matter, and nothing else."""


class _Parameter(_Form):
    """One with ``values`` is bound; others are numbers."""

    about: str
    values: tuple[str, ...] | None = None
    legacy: tuple[str, ...] = ()
    min: int | None = None
    max: str | None = None
    candidates: tuple[int, ...] | str | None = None
    labels: tuple[str, ...] = ()
    when: dict[str, str | tuple[str, ...]] = {}
    optional: bool = False
    categorical: bool = False
    unlike: str = ""
    keeps: str | None = None


class _Matter(_Form):
    """CONTRIBUTING.md says what each is for; but for the parameters it is as in Algorithm."""

    name: str
    title: str
    cite: str
    cost: str | dict[str, str]
    requires: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    fits: str | None = None
    scratch: str | None = None
    scratch_is_optional: bool = False
    half_duplex: bool = False
    legacy: bool = False
    shared: tuple[str, ...] = ()
    params: dict[str, _Parameter] = {}


PARAMETERS = ("shared", "params")


def front_matter(path: Path) -> dict[str, Any]:
    """TOML in a template's first Jinja comment."""
    text = path.read_text(encoding="utf-8")
    match = re.match(r"\{#\n(.*?)#\}", text, re.DOTALL)
    if not match:
        raise UserError(f"{path}: the file begins with no front matter in {{# ... #}}")
    return load_toml_text(match[1], str(path))


def read_algorithm(path: Path, collective: Collective) -> Algorithm:
    """Read the front matter of a template of a collective's algorithm."""
    name = path.name.split(".", 1)[0]
    matter = _converted(front_matter(path), _Matter, str(path))
    if matter.name != name:
        raise UserError(f"{path}: name is {matter.name!r}, not the file's {name!r}")
    _check_known(matter.requires, REQUIREMENTS, f"{path}: requires")
    parameters = {**matter.params, **_shared(path, matter.shared)}
    said = {key: value for key, value in structs.asdict(matter).items() if key not in PARAMETERS}
    found = Algorithm(
        **said,
        collective=collective,
        path=path,
        enumerated=tuple(
            Enumerated(key, one.values, one.about, one.optional, one.legacy)
            for key, one in parameters.items()
            if one.values is not None
        ),
        numbers=tuple(
            _number(key, one, path) for key, one in parameters.items() if one.values is None
        ),
    )
    _check_names(found)
    return found


def _converted(matter: Any, kind: type[T], source: str) -> T:
    """Front matter of a kind; UserError says what is missing or wrong."""
    try:
        return msgspec.convert(matter, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{source}: front matter: {error}") from error


def _check_known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{where}: {name!r} is none of {', '.join(known)}")


def _shared(path: Path, names: Sequence[str]) -> dict[str, _Parameter]:
    """The parameters that front matter takes from the folder's shared.toml, by name."""
    source = path.parent / "shared.toml"
    known = _converted(load_toml(source), dict[str, _Parameter], str(source)) if names else {}
    _check_known(names, known, f"{path}: shared")
    return {name: known[name] for name in names}


def _number(name: str, one: _Parameter, path: Path) -> Number:
    """A number of front matter."""
    walks = isinstance(one.candidates, str)
    wanted = {"min": one.min, "candidates": one.candidates, **({"max": one.max} if walks else {})}
    missing = [key for key, value in wanted.items() if value is None]
    if missing and not one.labels:
        raise UserError(
            f"{path}: front matter: the parameter {name} has values, labels, or a min and "
            f"candidates (and max, where they are a walk): {', '.join(missing)} is missing"
        )
    if isinstance(one.candidates, str):
        _check_known([one.candidates], WALKS, f"{path}: candidates of {name}")
    return Number(
        name,
        0 if one.labels else one.min or 0,
        one.max,
        tuple(range(len(one.labels))) if one.labels else one.candidates or (),
        one.about,
        {key: (value,) if isinstance(value, str) else value for key, value in one.when.items()},
        one.labels,
        bool(one.labels) or one.optional,
        one.categorical,
        one.unlike,
        one.keeps,
    )


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
