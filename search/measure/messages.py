"""Measures what single messages cost (network.py), by requests to the measuring job."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from search.cluster.topology import FULL_FRAME
from search.measure.network import Burst, Copy, MessageTimes, Network
from search.results.samples import Interval, median_interval

Ask = Callable[[str], Mapping[str, Any]]
"""Puts one request to the measuring job (probes/measure.c)."""

Busy = Callable[[], float]
"""Seconds that this machine's processors have worked so far, together."""

SIZES = (1, 64, 256, 1024, 4096, 16384, 65536)
"""Bytes of messages."""
LONGEST = 0.02
"""Seconds that no message of more than LEAST_LARGE bytes is expected to take."""
LEAST_LARGE = 4096
PASSES = {"quick": 1, "normal": 2, "thorough": 3}
"""Over all sizes, some seconds apart, by effort: a disturbance is in one of them."""
CROWD_ROW = 10
"""Exchanges of all ranks with all in a row."""
NO_TIME = Interval(0.0, 0.0, 0.0)
CALLS = 9
RUNS = 3
LEAST_IN_ROW, MOST_IN_ROW, ROW_SECONDS = 3, 20, 0.02
"""Exchanges in a row, of which the mean counts: as many as take so long."""
WORK_SECONDS = 0.1
"""So long do all ranks exchange messages to see how busy processors are."""
MOST_CALLS = 1000
TRAINS, TRAIN_SECONDS = (16, 64, 256), 0.03
"""Isends in a row, more and more until SPIKES of them took long."""
SPIKES = 10
SPIKE = 4.0
"""An Isend that takes so many times o_s, and SPIKE_LEAST seconds, is one of large overhead."""
SPIKE_LEAST = 2e-5
DELAY = 3e-3
"""Seconds, beside twice one_way, that a receiver comes late."""
WAITED = 0.7
"""Of a delay: who needs more of it waited for the other side."""
WIRE_LEAST = 1.5e-4
"""Seconds of a message whose time is mostly the wire's."""
UNCLEAR = {"blocking": "immediate", "rendezvous": "delivered"}
"""What a shorter message seems to be."""
LATE_SHARE = 4
"""One of so many sends must have waited: a receiver that is late in another call takes them in."""
COPY_BYTES = (4096, 1 << 16, 1 << 20)
BURST_BYTES = (8192, 32768)
BURST_CALLS = 5
MOST_BURSTS = 8
LEAST_RATE_SECONDS, MOST_RATE_SECONDS, RATE_PASS_SECONDS = 0.02, 0.1, 2.0
"""Of a message that shows a rate, and of those of all ranks."""
RATE_PASSES = 3
LEAST_OF_RATE, MOST_OF_RATE = 1 << 16, 1 << 24
"""Bytes of a message that shows a rate."""


def measure_network(
    ask: Ask,
    ranks: int,
    thresholds: Sequence[int],
    hosts: int,
    slowest: float | None,
    busy: Busy | None = None,
    effort: str = "normal",
) -> Network:
    """Measure between rank 0 and the last, and all together.

    ``thresholds`` are largest messages before the library changes its protocol; ``slowest`` is the
    slowest cable in Mbit/s, if known; ``busy`` is there where hosts share processors.
    """
    sizes = sorted({*SIZES, *thresholds, *(size + 1 for size in thresholds)})
    passes: list[list[MessageTimes]] = []
    for _ in range(PASSES[effort]):
        passes.append([])
        for size in sizes:
            if passes[-1] and size > LEAST_LARGE:
                before = passes[-1][-1]
                if before.one_way.median * size / before.bytes > LONGEST:
                    break
            passes[-1].append(_message(ask, ranks, size, busy))
    messages = _with_changes(ask, ranks, agreed([quietest(same) for same in zip(*passes)]), busy)
    alpha, beta = line([(p.bytes, p.both_ways.median) for p in messages])
    alpha_uni, beta_uni = line([(p.bytes, p.one_way.median) for p in messages])
    start_send, copy_send = line([(p.bytes, p.o_s.median) for p in messages])
    start_receive, copy_receive = line([(p.bytes, p.o_r.median) for p in messages])
    kinds = ("library", "ring", "dissemination", "tournament")
    return Network(
        tuple(messages),
        {k: median_interval(ask(f"barrier {k} {CALLS}")["seconds"]) for k in kinds},
        messages[0].one_way,
        alpha,
        beta,
        alpha_uni,
        beta_uni,
        start_send,
        start_receive,
        copy_send,
        copy_receive,
        tuple(_copies(ask, size) for size in COPY_BYTES),
        tuple(_bursts(ask, ranks, hosts)),
        tuple(map(statistics.median, zip(*measure_rates(ask, ranks, slowest)))),
    )


def measure_rates(ask: Ask, ranks: int, slowest: float | None) -> list[tuple[float, ...]]:
    """Bytes of payload a second from each rank to the next, one after the other, in each of
    RATE_PASSES; ``slowest`` is the slowest cable in Mbit/s, if known."""
    seconds = max(LEAST_RATE_SECONDS, min(MOST_RATE_SECONDS, RATE_PASS_SECONDS / ranks))
    size = int((slowest or 1000.0) * 1e6 / 8 * seconds)
    size = max(LEAST_OF_RATE, min(MOST_OF_RATE, size))
    ask(f"rates {size}")  # TCP's windows grow only while they are used
    passes = (ask(f"rates {size}")["seconds"] for _ in range(RATE_PASSES))
    return [tuple(size / seconds for seconds in each) for each in passes]


def line(times: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Start-up and slope of the line through times by bytes; relative errors count."""
    size, seconds = np.array(times, dtype=float).T
    mean = partial(np.average, weights=seconds**-2)
    x, y = mean(size), mean(seconds)
    spread = mean((size - x) ** 2)
    slope = max(0.0, mean((size - x) * (seconds - y)) / spread) if spread else 0.0
    return float(max(0.0, y - slope * x)), float(slope)


def quietest(messages: Sequence[MessageTimes]) -> MessageTimes:
    """One size, measured several times: of each time the smallest, since disturbances only add to
    it, and of modes the one that was seen most often."""
    modes = [message.mode for message in messages]
    usual = max(messages, key=lambda message: modes.count(message.mode))

    def least(name: str) -> Interval:
        times: list[Interval] = [getattr(message, name) for message in messages]
        return min(times, key=lambda time: time.median)

    return replace(
        usual,
        one_way=least("one_way"),
        o_r=least("o_r"),
        o_s=least("o_s"),
        gap=least("gap"),
        both_ways=least("both_ways"),
        all_at_once=least("all_at_once"),
        all_with_all=least("all_with_all"),
        each=least("each"),
        work=min(message.work for message in messages),
    )


def _message(ask: Ask, ranks: int, size: int, busy: Busy | None) -> MessageTimes:
    pair = f"0 {ranks - 1} {size}"
    ask(f"pingpong {pair} 5")
    one_way = median_interval(ask(f"pingpong {pair} {CALLS}")["seconds"])
    receive, start, mode = _late(ask, pair, one_way.median)
    row = min(MOST_IN_ROW, max(LEAST_IN_ROW, round(ROW_SECONDS / one_way.median)))
    both = [ask(f"exchange {pair} {row}")["seconds"][0] for _ in range(RUNS)]
    every = [ask(f"neighbours {size} {row}")["seconds"][0] for _ in range(RUNS)]
    starts, each = _train(ask, pair, one_way.median)
    return MessageTimes(
        size,
        one_way,
        receive,
        start,
        _difference(one_way, receive, start),
        median_interval(both),
        median_interval(every),
        _crowd(ask, size) if busy and size <= FULL_FRAME else NO_TIME,
        each,
        _work(ask, ranks, size, statistics.median(every), busy) if busy else 0.0,
        mode,
        *pattern(starts),
    )


def _late(ask: Ask, pair: str, one_way: float) -> tuple[Interval, Interval, str]:
    """A receiver that comes late: or, o_s, and the mode of the send."""
    delay = min(1.0, DELAY + 2 * one_way)
    times = ask(f"delayed {pair} {round(delay * 1e6)} {CALLS}")
    receive, start = median_interval(times["receive"]), median_interval(times["start"])
    end = sorted(times["end"])[-1 - len(times["end"]) // LATE_SHARE]
    return receive, start, mode_of(one_way, receive.median, start.median, end, delay)


def _crowd(ask: Ask, size: int) -> Interval:
    """An exchange of every rank with every other."""
    return median_interval([ask(f"crowd {size} {CROWD_ROW}")["seconds"][0] for _ in range(RUNS)])


def _work(ask: Ask, ranks: int, size: int, seconds: float, busy: Busy) -> float:
    """Seconds of processors for one of the messages of all ranks at once."""
    calls = max(1, min(MOST_CALLS, round(WORK_SECONDS / seconds)))
    before = busy()
    ask(f"neighbours {size} {calls}")
    return (busy() - before) / (calls * ranks)


def _with_changes(
    ask: Ask, ranks: int, messages: Sequence[MessageTimes], busy: Busy | None
) -> list[MessageTimes]:
    """The same, with the sizes on both sides of each change of mode."""
    found = [messages[0]]
    for message in messages[1:]:
        low, high = found[-1].bytes, message.bytes
        while found[-1].mode != message.mode and high - low > 1:
            middle = (low + high) // 2
            mode = _late(ask, f"0 {ranks - 1} {middle}", message.one_way.median)[2]
            low, high = (middle, high) if mode == found[-1].mode else (low, middle)
        if found[-1].mode != message.mode and low > found[-1].bytes:
            found.append(replace(_message(ask, ranks, low, busy), mode=found[-1].mode))
        if found[-1].mode != message.mode and high < message.bytes:
            found.append(replace(_message(ask, ranks, high, busy), mode=message.mode))
        found.append(message)
    return found


def _difference(whole: Interval, *parts: Interval) -> Interval:
    """What is left of a time without its parts; not below 0."""
    low = whole.low - sum(part.high for part in parts)
    high = whole.high - sum(part.low for part in parts)
    middle = whole.median - sum(part.median for part in parts)
    return Interval(max(0.0, low), max(0.0, middle), max(0.0, high))


def mode_of(one_way: float, receive: float, start: float, end: float, delay: float) -> str:
    """Which of MODES a send is in, when its receiver came ``delay`` late; all in seconds. Where the
    wire takes no time to speak of, immediate stands for blocking, too, and delivered for
    rendezvous."""
    is_long = one_way > WIRE_LEAST
    if is_long and start > WAITED * one_way:
        return "blocking"
    if end < WAITED * delay:
        return "immediate"
    # what had been under way before the receive began is there at once
    return "rendezvous" if is_long and receive > WAITED * one_way else "delivered"


def agreed(messages: Sequence[MessageTimes]) -> list[MessageTimes]:
    """The same; but a size that differs from both of its neighbours, which agree, was a disturbed
    one, and short messages that cannot tell are as the long ones above them."""
    found = list(messages)
    for i in range(1, len(found) - 1):
        before, after = found[i - 1].mode, found[i + 1].mode
        if before == after != found[i].mode:
            found[i] = replace(found[i], mode=after)
    for i in reversed(range(len(found) - 1)):
        mine = UNCLEAR.get(found[i + 1].mode)
        if found[i].one_way.median < WIRE_LEAST and found[i].mode == mine:
            found[i] = replace(found[i], mode=found[i + 1].mode)
    return found


def _train(ask: Ask, pair: str, one_way: float) -> tuple[list[float], Interval]:
    """Seconds of each Isend of a row, the median of several rows; and of one of its messages from
    start to end."""
    starts: list[float] = []
    each = Interval(one_way, one_way, one_way)
    for count in TRAINS:
        if starts and count * each.median > TRAIN_SECONDS:
            break
        rows = [ask(f"isends {pair} {count}") for _ in range(RUNS)]
        starts = [statistics.median(times) for times in zip(*(row["start"] for row in rows))]
        each = median_interval([row["all"][0] / count for row in rows])
        if sum(time > _large(starts) for time in starts) >= SPIKES:
            break
    return starts, each


def _large(starts: Sequence[float]) -> float:
    return max(SPIKE_LEAST, SPIKE * statistics.median(starts))


def pattern(starts: Sequence[float]) -> tuple[int, float, float, float]:
    """initial_interval, o_s_spike, mid_interval and o_s_mid of Isends in a row; without spikes all
    Isends from half of the first one's time on are of the initial interval."""
    large = [i for i, time in enumerate(starts) if i and time > _large(starts)]
    if len(large) < 2:
        cheap = next((i for i, time in enumerate(starts) if time < starts[0] / 2), len(starts))
        return cheap, 0.0, 0.0, statistics.median(starts[cheap:] or starts)
    gaps = [b - a - 1 for a, b in zip(large, large[1:])]
    between = [t for i, t in enumerate(starts) if i > large[0] and i not in large]
    return (
        large[0],
        statistics.mean(starts[i] for i in large),
        statistics.mean(gaps),
        statistics.median(between or starts),
    )


def _copies(ask: Ask, size: int) -> Copy:
    def seconds(together: int) -> Interval:
        times = ask(f"copies {size} {CALLS} {together}")["seconds"]
        return median_interval([time / size for time in times])

    return Copy(size, seconds(0), seconds(1))


def _bursts(ask: Ask, ranks: int, hosts: int) -> list[Burst]:
    """More and more senders, where there are others than rank 0's host."""
    if hosts < 2:
        return []
    step = max(1, (ranks - 1) // MOST_BURSTS)
    found = []
    for size in BURST_BYTES:
        for senders in range(1, ranks, step):
            answer = ask(f"burst {senders} {size} {BURST_CALLS}")
            lost = sum(count for _, count in answer["resent"]) / BURST_CALLS
            found.append(Burst(senders, size, median_interval(answer["seconds"]), lost))
    return found
