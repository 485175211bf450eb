"""A collective operation: what is not the same for all of them.

A folder of templates with collective.toml is one: the descriptor, its algorithms, and entry.j2 if
it is emitted, not only measured. probes/collectives/ has how the measuring job calls and judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from search.catalogue.expression import evaluate
from search.errors import UserError
from search.toml import load_toml

DEFAULT = "alltoall"
"""The collective that is tuned unless another is named."""
EVERY_PAIR = "inside*outside"
"""What crosses a cable where every rank sends a block to every other."""
DESCRIPTOR = "collective.toml"


def crossing(across: str, inside: int, outside: int) -> float:
    """The value of such a formula."""
    return evaluate(across, {"inside": inside, "outside": outside})


@dataclass(frozen=True)
class Collective:
    """What its descriptor says."""

    name: str
    """of its folder of templates"""
    function: str
    """the MPI library's"""
    across: str = EVERY_PAIR
    """blocks that must cross a cable with so many ranks ``inside``, and so many ``outside``, in
    either direction: its bound"""
    sizes: tuple[int, ...] = ()
    """blocks to measure, if they are not those of the settings"""

    def crossing(self, inside: int, outside: int) -> float:
        """Blocks that must cross a cable with so many ranks on one side and on the other."""
        return crossing(self.across, inside, outside)

    @property
    def prefix(self) -> str:
        """How the labels of its variants begin."""
        return "" if self.name == DEFAULT else f"{self.name}/"

    @property
    def native(self) -> str:
        """The label of the library's own, the reference."""
        return f"{self.prefix}native"


def read_collective(folder: Path) -> Collective:
    """Read a descriptor; UserError if it is none."""
    path = folder / DESCRIPTOR
    matter = load_toml(path)
    try:
        found = Collective(folder.name, **{**matter, "sizes": tuple(matter.get("sizes", ()))})
    except TypeError as error:
        raise UserError(f"{path}: not a collective's descriptor: {error}") from error
    found.crossing(1, 1)
    return found
