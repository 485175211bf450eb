"""Files: written so that the old one stays until the new one is whole, read if they are."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from search.errors import EnvironmentFailure

PACKED = ".gz"
T = TypeVar("T")


def write_whole(path: Path, text: str) -> None:
    """Write aside, sync, rename: after any failure the old file is still there. What its name says
    is packed is packed."""
    data = text.encode()
    if path.suffix == PACKED:
        data = gzip.compress(data, mtime=0)
    aside = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(aside, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise EnvironmentFailure(f"cannot write {path}: {error.strerror}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one if there is none, or it is damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def write_json(path: Path, value: Any) -> None:
    """Write plain data (dataclasses, tuples, mappings, numbers, texts) as JSON for people."""
    plain = msgspec.to_builtins(value, str_keys=True)
    write_whole(path, json.dumps(plain, indent=1) + "\n")


def read_bytes(path: Path) -> bytes:
    """A file's content, unpacked if its name says that it is packed; OSError if it is damaged."""
    data = path.read_bytes()
    try:
        return gzip.decompress(data) if path.suffix == PACKED else data
    except (EOFError, zlib.error) as error:
        raise gzip.BadGzipFile(f"damaged: {error}") from error


def read_json(path: Path, kind: type[T]) -> T:
    """What ``write_json`` wrote, as that kind of dataclass; ValueError says what is missing or
    wrong, and where."""
    try:
        return msgspec.json.decode(read_bytes(path), type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def read_json_if_whole(path: Path, kind: type[T]) -> T | None:
    """The same; None if there is no such file, or it is damaged."""
    try:
        return read_json(path, kind)
    except (OSError, ValueError):
        return None
