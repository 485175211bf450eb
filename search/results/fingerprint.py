"""Under which circumstances something was measured, in short."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def digest(fields: Mapping[str, object]) -> str:
    """A short name for a fingerprint: its fields, as JSON has them."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def hash_of(files: Iterable[Path]) -> str:
    """Changes when a file's name or content does."""
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]
