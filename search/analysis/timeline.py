"""A recording of one exchange, drawn: the cables as rows, the messages on them as bars."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from search.cluster.topology import Topology
from search.errors import EnvironmentFailure
from search.files import write_whole

MOST_ROWS = 64
"""Cables that are drawn: the busiest."""


@dataclass(frozen=True)
class Message:
    """One message between two ranks; seconds from the start of the exchange.

    A token has no bytes. ``posted`` is when its sender started it, ``arrived`` when its
    receiver saw it complete.
    """

    source: int
    destination: int
    bytes: int
    posted: float
    arrived: float


@dataclass(frozen=True)
class Row:
    """What went over one direction of one cable, by time."""

    cable: str
    messages: tuple[Message, ...]

    @property
    def busy(self) -> float:
        """Seconds in which a message with bytes was on its way over this cable."""
        total, end = 0.0, 0.0
        for message in self.messages:
            if message.bytes:
                total += max(0.0, message.arrived - max(end, message.posted))
                end = max(end, message.arrived)
        return total


def pair_up(records: Iterable[Sequence[Any]]) -> list[Message]:
    """Join what senders and receivers saw: (rank, receives, peer, tag, bytes, posted, complete).

    MPI delivers messages of one pair and tag in order: one that was looked at late had arrived
    before the next. Raises EnvironmentFailure if a message has no other end.
    """
    sends: dict[Any, list[Any]] = defaultdict(list)
    receives: dict[Any, list[Any]] = defaultdict(list)
    for rank, receives_it, peer, tag, size, posted, complete in sorted(records, key=lambda r: r[5]):
        if receives_it:
            receives[peer, rank, tag].append(complete)
        else:
            sends[rank, peer, tag].append((size, posted))
    if {k: len(v) for k, v in sends.items()} != {k: len(v) for k, v in receives.items()}:
        raise EnvironmentFailure("the recording has a message of which one end is missing")
    for arrivals in receives.values():
        for place in range(len(arrivals) - 1, 0, -1):
            arrivals[place - 1] = min(arrivals[place - 1], arrivals[place])
    return sorted(
        (
            Message(source, destination, size, posted, arrived)
            for (source, destination, tag), started in sends.items()
            for (size, posted), arrived in zip(started, receives[source, destination, tag])
        ),
        key=lambda message: message.posted,
    )


def rows_of(
    messages: Sequence[Message], topology: Topology, host_of_rank: Sequence[str]
) -> list[Row]:
    """The messages on every direction of every cable that has any, busiest first."""
    below = topology.hosts_below()
    rows = []
    for link in topology.links:
        inside = {rank for rank, host in enumerate(host_of_rank) if host in below[link.lower]}
        for name, leaves in ((f"{link.lower} up", True), (f"{link.lower} down", False)):
            there = tuple(
                m
                for m in messages
                if (m.source in inside) is leaves and (m.destination in inside) is not leaves
            )
            if there:
                rows.append(Row(name, there))
    return sorted(rows, key=lambda row: -sum(m.bytes for m in row.messages))


def describe(rows: Sequence[Row], messages: Sequence[Message]) -> str:
    """One paragraph of numbers: how busy the busiest cable was, and how long tokens took."""
    span = max((m.arrived for m in messages), default=0.0)
    tokens = sorted(m.arrived - m.posted for m in messages if not m.bytes)
    busiest = rows[0]
    text = (
        f"{span * 1e3:.1f} ms, {sum(1 for m in messages if m.bytes)} messages; "
        f"{busiest.cable} has most to carry and was busy {busiest.busy / span:.0%} of the time"
    )
    if tokens:
        middle, late = tokens[len(tokens) // 2], tokens[len(tokens) * 9 // 10]
        text += f"; {len(tokens)} tokens took {middle * 1e3:.2f} ms (median), nine in ten less than"
        text += f" {late * 1e3:.2f} ms"
    return text


def write_messages(path: Path, label: str, block: int, messages: Sequence[Message]) -> None:
    """Keep the recording: build/timeline.json."""
    content: Mapping[str, Any] = {
        "variant": label,
        "block": block,
        "messages": [asdict(message) for message in messages],
    }
    write_whole(path, json.dumps(content) + "\n")


def draw(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Draw an SVG: a row for each cable, coloured by the sending rank; tokens are ticks."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    rows = rows[:MOST_ROWS]
    colours = matplotlib.colormaps["tab20"]
    figure, axes = pyplot.subplots(figsize=(16, 1.5 + 0.28 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        bars = [m for m in row.messages if m.bytes]
        axes.broken_barh(
            [(m.posted * 1e3, (m.arrived - m.posted) * 1e3) for m in bars],
            (place - 0.4, 0.8),
            facecolors=[colours(m.source % 20) for m in bars],
            edgecolor="white",
            linewidth=0.3,
            alpha=0.8,
        )
        ticks = [m.arrived * 1e3 for m in row.messages if not m.bytes]
        axes.vlines(ticks, place - 0.45, place + 0.45, colors="black", linewidth=0.4)
    axes.set_yticks(range(len(rows)), [row.cable for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(
        "milliseconds: messages from start to arrival, coloured by sender; black: tokens arriving"
    )
    axes.set_title(title, fontsize=10)
    temporary = path.with_suffix(".part")
    figure.savefig(temporary, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    temporary.replace(path)
