"""Search on the cluster that was configured, into the journal."""

from __future__ import annotations

from argparse import Namespace

from search.cli.desk import Desk
from search.cli.tuning import tune


def run(desk: Desk, options: Namespace) -> None:
    """Search."""
    with desk.site() as site:
        tune(desk, site, desk.start_job(site))
