"""What every verb works with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.console import Console

from search.catalogue.catalogue import Catalogue, every_catalogue
from search.cli.configured import read_cluster
from search.cli.settings import Settings
from search.cli.workplace import Workplace, build_job
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.site import Site
from search.errors import UserError
from search.toolchain import TEMPLATES, Toolchain, read_toolchain


@dataclass(frozen=True)
class Desk:
    """Where a verb writes for people, where files are, and what there is to choose from; ``begin``
    is the monotonic time from which a time limit counts."""

    console: Console
    place: Workplace
    catalogue: Catalogue
    begin: float

    @property
    def tools(self) -> Toolchain:
        """What configure found."""
        return read_toolchain(self.place.root / "config.mk")

    def configured(self) -> tuple[Cluster, Settings]:
        """The cluster and the settings of the search; UserError if configure never ran."""
        return read_cluster(self.place.cluster)

    def of(self, collective: str) -> Desk:
        """The same for another collective; UserError if there is none of that name."""
        found = {one.collective.name: one for one in every_catalogue(TEMPLATES)}
        if collective not in found:
            raise UserError(f"no collective {collective!r}: there are {', '.join(found)}")
        return replace(self, catalogue=found[collective])

    def site(self) -> Site:
        """The cluster, to be entered."""
        return Site(self.configured()[0], self.tools, self.place.build)

    def start_job(self, site: Site, program: str = "measure", *define: str) -> Job:
        """Build the measuring job with every algorithm in it, and start it."""
        built = build_job(site.tools, site.cluster, self.place, program, *define)
        return site.start_job(built)

    def say(self, text: str) -> None:
        """One line, as it is."""
        self.console.print(text, markup=False)
