"""The journal of raw samples: append-only JSON lines, each with a checksum.

A record is what was timed (workload, label, round), under which fingerprint, and a sample or the
reason why there is none; or which rounds are void, and why; or what disturbed the hosts during
some. Interrupted tuning goes on from it, and everything decided or shown can be computed from it
again.
"""

from __future__ import annotations

import json
import os
import statistics
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.catalogue.collective import DEFAULT
from search.errors import EnvironmentFailure, UserError
from search.files import read_bytes
from search.results.samples import TIMEOUT, Sample
from search.results.workload import Workload

SCHEMA = 2

MORE_STEAL = 0.1
"""A round is disturbed if the hypervisor took this share more than it usually did,"""
LATE_WAKE, LATER_WAKE = 0.01, 4.0
"""or if a process woke so many seconds late, and so many times later than usually."""

Rounds = dict[int, dict[str, Sample]]
"""By number: the samples of each variant, by label, that were timed together."""


@dataclass(frozen=True)
class Disturbance:
    """What kept the worst host from its work: the share of its processors' time that the hypervisor
    gave to others (``steal``), and how late a sleeping process woke, in seconds (``woke``)."""

    steal: float
    woke: float


@dataclass(frozen=True)
class Record:
    """One line: a sample of a variant at a block in a round, a failure of it, void rounds, or what
    disturbed rounds.

    ``scheme`` says how calls were timed (probes/timing.h); ``rounds`` are those that are void, or
    that were under way while a disturbance was measured.
    """

    workload: Workload
    label: str = ""
    round: int = 0
    sample: Sample | None = None
    failure: str | None = None
    void: str | None = None
    rounds: tuple[int, ...] = ()
    restart: bool = False
    """the strategy gave them up, which it does again when it meets them again"""
    scheme: str = "barrier"
    disturbance: Disturbance | None = None
    confirms: bool = False
    """it was timed to confirm what the search found"""


def rounds_of(records: Iterable[Record], restarted: bool = False) -> dict[Workload, Rounds]:
    """The rounds that are not void; with ``restarted`` those too that a strategy gave up."""
    records = list(records)
    void = {
        (record.workload, number)
        for record in records
        if record.void is not None and not (restarted and record.restart)
        for number in record.rounds
    }
    found: dict[Workload, Rounds] = {}
    for record in records:
        if record.sample and (record.workload, record.round) not in void:
            rounds = found.setdefault(record.workload, {})
            rounds.setdefault(record.round, {})[record.label] = record.sample
    return found


def confirming_rounds(records: Iterable[Record]) -> dict[Workload, set[int]]:
    """The rounds that confirm what a search found."""
    found: dict[Workload, set[int]] = {}
    for record in records:
        if record.confirms:
            found.setdefault(record.workload, set()).add(record.round)
    return found


def usual_disturbance(records: Iterable[Record]) -> Disturbance:
    """What was usual for the time of the records: medians."""
    seen = [record.disturbance for record in records if record.disturbance]
    if not seen:
        return Disturbance(0.0, 0.0)
    return Disturbance(
        statistics.median(one.steal for one in seen), statistics.median(one.woke for one in seen)
    )


def disturbed_rounds(records: Iterable[Record]) -> dict[Workload, set[int]]:
    """The rounds that were disturbed beyond what was usual for their machine."""
    records = list(records)
    usual = usual_disturbance(records)
    most = Disturbance(usual.steal + MORE_STEAL, max(LATE_WAKE, LATER_WAKE * usual.woke))
    found: dict[Workload, set[int]] = {}
    for record in records:
        here = record.disturbance
        if here and (here.steal > most.steal or here.woke > most.woke):
            found.setdefault(record.workload, set()).update(record.rounds)
    return found


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
            data = read_bytes(self.path)
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
        self.torn = bool(tail)
        self._whole = len(data) - len(tail)

    def _take(self, line: bytes) -> None:
        content = _decode(line.decode("utf-8"))
        record = _record(content)
        if content["fingerprint"] == self.fingerprint:
            self.records.append(record)
        else:
            self.foreign += 1

    def of(self, collective: str) -> list[Record]:
        """The records of one collective: what is said of it rests on these alone."""
        return [record for record in self.records if record.workload.collective == collective]

    def append(self, record: Record) -> None:
        """Write one record through to the file."""
        content = {"schema": SCHEMA, "fingerprint": self.fingerprint, **_content(record)}
        self._append_raw(_encode(content))
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
        first = read_bytes(path).split(b"\n", 1)[0]
        fingerprint = str(_decode(first.decode("utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} is not a journal of measurements: {error}") from error
    return Journal(path, fingerprint)


def _where(workload: Workload) -> dict[str, Any]:
    """Its fields; that of the usual collective is left out."""
    fields = vars(workload)
    return {key: value for key, value in fields.items() if (key, value) != ("collective", DEFAULT)}


def _content(record: Record) -> dict[str, Any]:
    where = _where(record.workload)
    if record.void is not None:
        restart = {"restart": True} if record.restart else {}
        return {**where, "void": record.void, "rounds": record.rounds, **restart}
    if record.disturbance is not None:
        return {**where, "rounds": record.rounds, **vars(record.disturbance)}
    where["label"] = record.label
    if record.sample is None:
        return {**where, "failure": record.failure}
    sample = record.sample
    troubles = {
        "resent": sample.resent,
        "timeouts": sample.timeouts,
        "late": sample.late,
        "stalled": sample.stalled,
    }
    dilated = {"timeout": sample.timeout} if sample.timeout != TIMEOUT else {}
    return {
        **where,
        "round": record.round,
        "seconds": sample.calls,
        "scheme": record.scheme,
        "launch": sample.launch,
        "spent": sample.spent,
        **{key: value for key, value in troubles.items() if value},
        **({"confirms": True} if record.confirms else {}),
        **dilated,
    }


def _record(content: dict[str, Any]) -> Record:
    """What ``_content`` was made of; ValueError, KeyError or TypeError if of nothing."""
    if not isinstance(content["fingerprint"], str):
        raise ValueError("no fingerprint")
    workload = Workload(
        int(content["ranks"]), int(content["block"]), str(content.get("collective", DEFAULT))
    )
    if "void" in content:
        rounds = tuple(int(number) for number in content["rounds"])
        restart = bool(content.get("restart", False))
        return Record(workload, void=str(content["void"]), rounds=rounds, restart=restart)
    if "steal" in content:
        rounds = tuple(int(number) for number in content["rounds"])
        seen = Disturbance(float(content["steal"]), float(content["woke"]))
        return Record(workload, rounds=rounds, disturbance=seen)
    label = str(content["label"])
    if "failure" in content:
        return Record(workload, label, failure=str(content["failure"]))
    calls = tuple(float(seconds) for seconds in content["seconds"])
    if not calls or not min(calls) > 0:
        raise ValueError("a time that is not positive")
    sample = Sample(
        calls,
        tuple((int(host), int(count)) for host, count in content.get("resent", ())),
        int(content.get("timeouts", 0)),
        tuple(float(seconds) for seconds in content.get("late", ())),
        float(content["spent"]),
        int(content["launch"]),
        float(content.get("timeout", TIMEOUT)),
        float(content.get("stalled", 0.0)),
    )
    return Record(
        workload,
        label,
        int(content["round"]),
        sample,
        scheme=str(content["scheme"]),
        confirms=bool(content.get("confirms", False)),
    )
