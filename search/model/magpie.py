"""Broadcasts by formula, to compare the schedule model with: MagPIe's (Kielmann, Bal, Gorlatch,
Verstoep and Hofman, 2001) over parameterised LogP, as Vadhiyar, Fagg and Dongarra compare theirs.

A tree of height h whose busiest node has d children passes on k segments of m bytes in
(k - 1) * gamma(m) + lambda(m): gamma is the time between two segments at the busiest node, lambda
that of the first segment down to the last leaf. Both are upper bounds where the tree is unbalanced.
"""

from __future__ import annotations

import bisect
import math

from search.measure.network import MessageTimes, Network


def completion(tree: str, ranks: int, size: int, segment: int, network: Network) -> float:
    """Seconds of a broadcast of ``size`` bytes in segments along a tree."""
    height, degree = shape(tree, ranks)
    gap, send, receive, latency = parameters(network, min(segment, size))
    between = max(degree * gap, receive + degree * send)
    return (-(-size // segment) - 1) * between + height * (latency + degree * gap)


def shape(tree: str, ranks: int) -> tuple[int, int]:
    """Height, and children of the busiest node; KeyError of a tree that is none."""
    levels = max(1, math.ceil(math.log2(ranks)))
    return {
        "flat": (1, ranks - 1),
        "chain": (ranks - 1, 1),
        "binary": (max(1, int(math.log2(ranks))), 2),
        "binomial": (levels, levels),
    }[tree]


def parameters(network: Network, size: int) -> tuple[float, float, float, float]:
    """Parameterised LogP of so many bytes: g, os, or and L, in seconds; on the line between the
    sizes that were measured."""
    known = network.messages
    above = min(bisect.bisect_left([p.bytes for p in known], size), len(known) - 1)
    below = max(0, above - 1) if known[above].bytes != size else above
    one, other = known[below], known[above]
    share = (size - one.bytes) / (other.bytes - one.bytes) if other.bytes > one.bytes else 0.0

    def between(a: float, b: float) -> float:
        return max(0.0, a + share * (b - a))

    return (
        between(one.each.median, other.each.median),
        between(one.o_s.median, other.o_s.median),
        between(one.o_r.median, other.o_r.median),
        latency(known[0]),
    )


def latency(shortest: MessageTimes) -> float:
    """L: of the shortest message what is no gap."""
    return max(0.0, shortest.one_way.median - shortest.each.median)
