"""The journal of raw samples: append-only JSON lines, each with a checksum.

A record is what was timed (label, block in bytes to each peer), under which fingerprint, and
either a sample or the reason why there is none. Interrupted tuning goes on from it, and
everything decided or shown can be computed from it again.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.errors import EnvironmentFailure, UserError
from search.measure.samples import Sample

SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """One line: a sample of a variant at a block, or a failure of it."""

    label: str
    block: int
    sample: Sample | None
    failure: str | None = None


def _encode(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return json.dumps({"sum": f"{zlib.crc32(text.encode()):08x}", **content}) + "\n"


def _decode(line: str) -> dict[str, Any]:
    """The content of one line; ValueError if it is not what was written."""
    content = json.loads(line)
    if not isinstance(content, dict):
        raise ValueError("not an object")
    expected = content.pop("sum", None)
    if expected != f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}":
        raise ValueError("wrong checksum")
    if content.get("schema") != SCHEMA:
        raise ValueError("another schema")
    return content


class Journal:
    """Records of one fingerprint in a file; those of others stay there, unused."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Read what is there. A torn last line is dropped; a bad one elsewhere raises UserError."""
        self.path, self.fingerprint = path, fingerprint
        self.records: list[Record] = []
        self.foreign = 0
        self.torn = False
        self._read()

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise EnvironmentFailure(f"cannot read {self.path}: {error.strerror}") from error
        lines = data.split(b"\n")
        tail = lines.pop()  # empty, unless the last write was cut off
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{self.path}:{number}: damaged record ({error}): "
                    "begin anew with ./configure --fresh"
                ) from error
        if tail:
            self.torn = True
            os.truncate(self.path, len(data) - len(tail))

    def _take(self, line: bytes) -> None:
        content = _decode(line.decode("utf-8"))
        record = _record(content)
        if content["fingerprint"] == self.fingerprint:
            self.records.append(record)
        else:
            self.foreign += 1

    def append(self, record: Record) -> None:
        """Write one record through to the file."""
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "fingerprint": self.fingerprint,
            "label": record.label,
            "block": record.block,
        }
        if record.sample:
            content["seconds"] = record.sample.seconds
            content["retransmissions"] = record.sample.retransmissions
            content["timeouts"] = record.sample.timeouts
        else:
            content["failure"] = record.failure
        self._append_raw(_encode(content))
        self.records.append(record)

    def _append_raw(self, text: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a", encoding="utf-8") as handle:
                handle.write(text)
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {self.path}: {error.strerror}") from error

    def of_block(self, block: int) -> Iterator[Record]:
        """The records of one block, in the order they were made."""
        return (record for record in self.records if record.block == block)


def _record(content: dict[str, Any]) -> Record:
    if not isinstance(content["fingerprint"], str):
        raise ValueError("no fingerprint")
    label, block = str(content["label"]), int(content["block"])
    if "failure" in content:
        return Record(label, block, None, str(content["failure"]))
    seconds = float(content["seconds"])
    if not seconds > 0:
        raise ValueError("a time that is not positive")
    return Record(
        label, block, Sample(seconds, int(content["retransmissions"]), int(content["timeouts"]))
    )
