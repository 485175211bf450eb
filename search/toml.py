"""TOML in, with errors that name the file; TOML out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from search.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_toml_text(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; UserError names ``source`` and the line."""
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{source}: {error}") from error


def load_toml(path: Path) -> dict[str, Any]:
    """Read and parse a TOML file."""
    try:
        return load_toml_text(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
