"""How long ATALL waits for others, and how often it looks after them."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BOUNDS = 100.0
"""A visit that takes so many times the bandwidth bound does not come back."""
SLOW_RATE = 1e6
"""Bytes to each peer in a second where no bound is known."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds. Whoever waits is handed these, so that a test can be impatient."""

    start: float = 50.0
    """for a job to introduce itself: by which, and little else, a time limit may be overrun"""
    stop: float = 2.0
    """for a job to end"""
    answer: float = 60.0
    """for a job's answer, where nothing else is said"""
    visit: float = 20.0
    """for a visit to a variant, besides what the network needs"""
    host: float = 15.0
    """for a host to run a command"""
    cable: float = 5.0
    """before a host that does not answer is asked again: a cable may be put in again"""
    look: float = 1.0
    """at the most, between two looks whether anybody else is at work"""
    quiet: float = 10.0
    """for whoever is at work to end"""
    pause: float = 0.5
    """between two looks whether they did"""

    def of_visit(self, block: int, bound: float | None) -> float:
        """For a visit at ``block`` bytes to each peer, whose bandwidth bound is so many seconds."""
        return self.visit + MOST_BOUNDS * (bound or block / SLOW_RATE)


USUAL = Timeouts()
