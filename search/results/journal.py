"""The journal of raw samples: append-only lines, one a record.

Interrupted tuning goes on from it, and everything decided or shown can be computed from it again.
"""

from __future__ import annotations

import os
from pathlib import Path

from search.errors import EnvironmentFailure, UserError
from search.files import read_bytes
from search.results.record import Record
from search.results.record_line import read_line, write_line


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
            data = read_bytes(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot read {self.path}: {error.strerror or error}"
            ) from error
        lines = data.split(b"\n")
        tail = lines.pop()  # empty, unless the last write was cut off
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except ValueError as error:
                raise UserError(
                    f"{self.path}:{number}: damaged record ({error}): "
                    "begin anew with ./configure --fresh"
                ) from error
        self.torn = bool(tail)
        self._whole = len(data) - len(tail)

    def _take(self, line: bytes) -> None:
        fingerprint, record = read_line(line)
        if fingerprint == self.fingerprint:
            self.records.append(record)
        else:
            self.foreign += 1

    def of(self, collective: str) -> list[Record]:
        """The records of one collective: what is said of it rests on these alone."""
        return [record for record in self.records if record.workload.collective == collective]

    def append(self, record: Record) -> None:
        """Write one record through to the file."""
        self._append_raw(write_line(record, self.fingerprint))
        self.records.append(record)

    def _append_raw(self, text: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.torn:  # only who writes changes the file
                os.truncate(self.path, self._whole)
                self.torn = False
            with open(self.path, "a", encoding="utf-8") as handle:
                handle.write(text)
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {self.path}: {error.strerror}") from error


def any_journal(path: Path) -> Journal:
    """The journal of a file of one fingerprint, whatever that is; UserError if there is none."""
    try:
        fingerprint, _ = read_line(read_bytes(path).split(b"\n", 1)[0])
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a journal of measurements: {error}") from error
    return Journal(path, fingerprint)
