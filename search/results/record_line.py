"""A record as it stands in the journal: one line of JSON with a checksum (doc/formats.md)."""

from __future__ import annotations

import json
import zlib
from typing import Annotated, Any

import msgspec

from search.catalogue.collective import DEFAULT
from search.results.record import Disturbance, Record
from search.results.samples import TIMEOUT, Sample
from search.results.workload import Workload

SCHEMA = 2

_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What every line says. What is usual is left out."""

    schema: int
    fingerprint: str
    ranks: int
    block: int
    collective: str = DEFAULT
    placement: str = ""


class _Timed(_Line, frozen=True, omit_defaults=True, kw_only=True):
    label: str
    round: int
    seconds: Annotated[tuple[_Seconds, ...], msgspec.Meta(min_length=1)]
    scheme: str
    launch: int
    spent: float
    resent: tuple[tuple[int, int], ...] = ()
    timeouts: int = 0
    late: tuple[float, ...] = ()
    timeout: float | None = None
    stalled: float | None = None
    confirms: bool = False


class _Failed(_Line, frozen=True, kw_only=True):
    label: str
    failure: str


class _Void(_Line, frozen=True, omit_defaults=True, kw_only=True):
    void: str
    rounds: tuple[int, ...]
    restart: bool = False


class _Disturbed(_Line, frozen=True, kw_only=True):
    rounds: tuple[int, ...]
    steal: float
    woke: float


_KINDS: dict[str, type[_Line]] = {
    "seconds": _Timed,
    "failure": _Failed,
    "void": _Void,
    "steal": _Disturbed,
}
"""By the field that no other kind has."""


def write_line(record: Record, fingerprint: str) -> str:
    """The line of a record that was measured under a fingerprint."""
    content = msgspec.to_builtins(_line_of(record, fingerprint))
    return json.dumps({"sum": _checksum(content), **content}) + "\n"


def read_line(line: bytes) -> tuple[str, Record]:
    """Its fingerprint and record; ValueError if it is not what was written."""
    content = json.loads(line.decode("utf-8"))
    if not isinstance(content, dict):
        raise ValueError("not an object")
    if content.pop("sum", None) != _checksum(content):
        raise ValueError("wrong checksum")
    if content.get("schema") != SCHEMA:
        raise ValueError("another schema")
    kind = next((kind for key, kind in _KINDS.items() if key in content), None)
    if not kind:
        raise ValueError(f"none of {', '.join(_KINDS)}")
    try:
        found = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    return found.fingerprint, _record_of(found)


def _checksum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def _line_of(record: Record, fingerprint: str) -> _Line:
    common = {"schema": SCHEMA, "fingerprint": fingerprint, **vars(record.workload)}
    if record.void is not None:
        return _Void(**common, void=record.void, rounds=record.rounds, restart=record.restart)
    if record.disturbance is not None:
        return _Disturbed(**common, rounds=record.rounds, **vars(record.disturbance))
    if record.sample is None:
        return _Failed(**common, label=record.label, failure=record.failure or "")
    sample = record.sample
    return _Timed(
        **common,
        label=record.label,
        round=record.round,
        seconds=sample.calls,
        scheme=record.scheme,
        launch=sample.launch,
        spent=sample.spent,
        resent=sample.resent,
        timeouts=sample.timeouts,
        late=sample.late,
        timeout=None if sample.timeout == TIMEOUT else sample.timeout,
        stalled=sample.stalled or None,
        confirms=record.confirms,
    )


def _record_of(line: _Line) -> Record:
    workload = Workload(line.ranks, line.block, line.collective, line.placement)
    if isinstance(line, _Void):
        return Record(workload, void=line.void, rounds=line.rounds, restart=line.restart)
    if isinstance(line, _Disturbed):
        seen = Disturbance(line.steal, line.woke)
        return Record(workload, rounds=line.rounds, disturbance=seen)
    if isinstance(line, _Failed):
        return Record(workload, line.label, failure=line.failure)
    assert isinstance(line, _Timed)
    sample = Sample(
        calls=line.seconds,
        resent=line.resent,
        timeouts=line.timeouts,
        late=line.late,
        spent=line.spent,
        launch=line.launch,
        timeout=line.timeout or TIMEOUT,
        stalled=line.stalled or 0.0,
    )
    confirms = line.confirms
    return Record(workload, line.label, line.round, sample, scheme=line.scheme, confirms=confirms)
