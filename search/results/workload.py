"""What is timed: the one key of samples, cells and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from search.catalogue.collective import DEFAULT


@dataclass(frozen=True, order=True)
class Workload:
    """A collective on so many ranks; ``block`` is bytes to each peer, or of a message that all
    get."""

    ranks: int
    block: int
    collective: str = DEFAULT
    """by its name: a folder of templates"""
    placement: str = ""
    """where the ranks are, as --placement says it; the first of the job where it does not"""

    @property
    def team(self) -> Team:
        """Who takes part."""
        return Team(self.ranks, self.placement)


Limit = Callable[[Workload], Optional[float]]
"""The bandwidth bound in seconds, if the links' speeds are known."""


@dataclass(frozen=True, order=True)
class Team:
    """So many ranks, the first of the job, or where a placement says."""

    ranks: int
    placement: str = ""

    def at(self, block: int) -> Workload:
        """An all-to-all of them."""
        return Workload(self.ranks, block, placement=self.placement)

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.ranks} ranks" + (f" as {self.placement}" if self.placement else "")
