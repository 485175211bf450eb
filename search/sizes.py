"""Sizes as people write them: 8K, 64 KiB."""

from __future__ import annotations


def size_text(block: int) -> str:
    """Bytes as people write them: 1024 is 1 KiB."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if block >= factor and block % (factor // 4) == 0:
            return f"{block / factor:g} {unit}"
    return f"{block} B"
