"""Measure the network itself: build/machine.json."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from search.cli.desk import Desk
from search.cluster.inventory import carriers, count_traffic
from search.cluster.job import Job
from search.cluster.site import Site
from search.measure.null_tests import NullTests
from search.measure.probe import probe, write_machine

MODEL_LEAST = 60
"""Seconds of a time limit that leave some for the parameters of the model."""


def run(desk: Desk, options: Namespace) -> None:
    """Measure it."""
    with desk.site() as site:
        probe_network(desk, site, desk.start_job(site)).close()


def probe_network(desk: Desk, site: Site, job: Job, tests: NullTests | None = None) -> Job:
    """Measure the network itself; write build/machine.json, with what null ``tests`` saw before.
    The job, or another if it was lost. A short time limit leaves no time for the parameters of the
    model."""
    place, (_, settings) = desk.place, desk.configured()
    limit = settings.time_limit
    effort = None if limit and limit < MODEL_LEAST else settings.effort

    def say(text: str) -> None:
        desk.say(f"probe: {text}")

    say("the network itself, for about half a minute")
    before = count_traffic(site.backend.query)
    job, machine = site.with_job(
        job, place.build / "measure", say, lambda job: probe(site.cluster, job, say, effort)
    )
    carried = carriers(before, count_traffic(site.backend.query))
    if carried:
        say(carried)
    write_machine(place.machine, replace(machine, null_tests=tests))
    return job
