"""Write build/report.html: what was measured, what was chosen and why, in pictures."""

from __future__ import annotations

from argparse import Namespace

from search.analysis.findings import Findings, read_bench
from search.cli.desk import Desk
from search.cli.measured import read_cells
from search.cli.summary import describe
from search.decide.decision_file import read_decision
from search.measure.probe import read_machine


def run(desk: Desk, options: Namespace) -> None:
    """Write it."""
    from search.analysis.report import write_report  # matplotlib takes a second to load

    place, (cluster, _) = desk.place, desk.configured()
    records, cells = read_cells(desk)
    path = place.build / "report.html"
    findings = Findings(
        f"All-to-all on {describe(cluster)}",
        cells,
        records,
        read_decision(place.decision, desk.catalogue),
        read_machine(place.machine),
        read_bench(place.build / "bench.json"),
        cluster.limit,
    )
    write_report(path, findings)
    desk.say(f"report: {path.relative_to(place.root)}")
