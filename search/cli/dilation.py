"""How far an emulated cluster is slowed down on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from search.cli.configured import write_cluster
from search.cli.desk import Desk
from search.cluster.backends import backend_of
from search.cluster.hosts import Cluster
from search.cluster.job import Job
from search.cluster.site import Site
from search.files import read_object
from search.measure.null_tests import DIVISORS, NullTests, dilation_text, fit

PROBE_SHARE = 0.3
"""Of a time limit: what is not known then is not tried."""


def dilate(desk: Desk, program: Path) -> tuple[Cluster, NullTests | None]:
    """Slow an emulated cluster down as far as this machine needs it now, beginning with what the
    last tuning needed; keep it in build/cluster.json. With what the null tests saw; ``program`` is
    the measuring job."""
    place, tools, (cluster, settings) = desk.place, desk.tools, desk.configured()
    if not backend_of(cluster.backend).can_dilate or len(cluster.ranks_on()) < 2:
        return cluster, None
    known = read_object(place.identity).get("dilation") if place.journal.exists() else 1
    first = known if known in DIVISORS else 1

    @contextmanager
    def started(dilated: Cluster) -> Iterator[Job]:
        with Site(dilated, tools, place.build) as site:
            yield site.start_job(program)

    def say(text: str) -> None:
        desk.say(f"probe: {text}")

    limit = settings.time_limit
    alltoall = desk.catalogue.contention_free(cluster.ranks).label
    deadline = desk.begin + limit * PROBE_SHARE if limit else None
    cluster, tests = fit(cluster, first, started, alltoall, say, deadline)
    if cluster.dilation > 1:
        say(f"this machine carries the cluster at {dilation_text(cluster)}")
    for trouble in tests.troubles(cluster.timeout):
        say(f"this machine disturbs the cluster: {trouble}; intervals will be wide")
    if tests.is_inherent:
        say(f"an all-to-all in phases has {tests.alltoall:.0%} of its bound with this MPI library")
    write_cluster(place.cluster, cluster, settings)
    return cluster, tests
