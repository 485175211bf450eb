"""What is timed: the one key of samples, cells and tables."""

from __future__ import annotations

from dataclasses import dataclass

from search.catalogue.collective import DEFAULT


@dataclass(frozen=True, order=True)
class Workload:
    """A collective on so many ranks; ``block`` is bytes to each peer, or of a message that all
    get."""

    ranks: int
    block: int
    collective: str = DEFAULT
    """by its name: a folder of templates"""
