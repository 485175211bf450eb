"""How the user wants the search to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from search.results.workload import Team
from search.strategy import DEFAULT


@dataclass(frozen=True)
class Settings:
    """What configure was told, for every later stage.

    ``ranks`` are numbers of ranks to tune for, and ``placed`` those at certain places; ``sizes``
    are blocks (bytes to each peer), the user's ``own_sizes`` or the usual ones; ``profile`` has
    instead blocks for each number of ranks, if a program's calls are tuned for. ``only`` names
    algorithms, none: all. ``time_limit`` is in seconds.
    """

    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    own_sizes: bool = False
    strategy: str = DEFAULT
    timing: str = "isolated"
    effort: str = "normal"
    only: tuple[str, ...] = ()
    time_limit: int | None = None
    accept_noise: bool = False
    profile: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    placed: tuple[Team, ...] = ()

    @property
    def teams(self) -> list[Team]:
        """All to tune for."""
        return [*(Team(ranks) for ranks in self.ranks), *self.placed]
