"""What is printed for people: the catalogue, the cluster, the choice and a verdict."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from search.analysis.bench import geometric_mean, ratio_text
from search.analysis.findings import shown
from search.catalogue.catalogue import Catalogue
from search.cli.tuning import Tuned
from search.cluster.backends import backend_of
from search.cluster.hosts import Cluster
from search.decide.decision import Decision, DecisionTable, Evidence
from search.sizes import size_text

PAGE_HEAD = """\
# The algorithms

Made from the front matter of templates/alltoall/ by `make golden`. p ranks, n bytes to each peer;
alpha is the start-up of a message and beta the time of a byte, theta what a step costs that waits
for another, delta_l a token, delta_h a barrier, gamma contention. `digits(p, r)` is the logarithm
to base r, rounded up. A parameter whose first value is in brackets may be left out of a label.
What is kept for the record won nowhere so far: only `--strategy=exhaustive` searches it.
[guide.md](guide.md) tells how variants are searched.
"""


def describe(cluster: Cluster) -> str:
    """A cluster in one line, without names."""
    hosts, tree = len(cluster.ranks_on()), cluster.topology
    speeds = sorted({link.mbit for link in tree.links if link.mbit})
    speed = f", {'/'.join(f'{s:g}' for s in speeds)} Mbit/s" if speeds else ""
    if cluster.dilation > 1:
        stands = "/".join(f"{s * cluster.dilation:g}" for s in speeds)
        speed += f" standing for {stands} (time dilated {cluster.dilation} x)"
    buffer = f", {size_text(cluster.buffer)} a port" if cluster.buffer else ""
    grid = f", a grid of {cluster.grid[0]} x {cluster.grid[1]}" if cluster.grid else ""
    word = backend_of(cluster.backend).word
    return (
        f"{cluster.ranks} ranks on {hosts} {word} host{'s' * (hosts > 1)}, "
        f"{len(tree.switches)} switch{'es' * (len(tree.switches) > 1)}{speed}{buffer}{grid}"
    )


def list_catalogue(console: Console, catalogue: Catalogue) -> None:
    """Print every algorithm with its parameters, source and cost."""
    for algorithm in catalogue.algorithms:
        needs = f" (requires {', '.join(algorithm.requires)})" if algorithm.requires else ""
        console.print(f"[bold]{algorithm.name}[/]: {algorithm.title}{needs}")
        for parameter in algorithm.enumerated:
            values = ", ".join(parameter.values)
            console.print(f"    {parameter.name}: {values}; {parameter.about}", markup=False)
        for number in algorithm.numbers:
            when = "".join(f" if {k}={'|'.join(v)}" for k, v in number.when.items())
            console.print(
                f"    {number.name}: {number.range}{when}; {number.about}",
                markup=False,
            )
        for body in algorithm.bodies():
            console.print(f"    cost of {body.label}: {body.cost}", markup=False)
        if algorithm.scratch:
            console.print(f"    scratch: {algorithm.scratch} bytes")
        console.print(f"    source: {algorithm.cite}", markup=False)


def catalogue_page(catalogue: Catalogue) -> str:
    """doc/algorithms.md: the same for readers."""
    lines = PAGE_HEAD.splitlines()
    for algorithm in catalogue.algorithms:
        title = algorithm.title[0].upper() + algorithm.title[1:]
        lines += ["", f"## {algorithm.name}", "", f"{title}.", "", f"- Source: {algorithm.cite}."]
        if algorithm.requires:
            lines.append(f"- Requires: {', '.join(algorithm.requires)}.")
        if algorithm.legacy:
            lines.append("- Legacy: it never won; searched only if `--only` names it.")
        if algorithm.scratch:
            spares = ", without which it works, too" if algorithm.scratch_is_optional else ""
            lines.append(f"- Scratch on each rank: `{algorithm.scratch}` bytes{spares}.")
        costs = {body.label: body.cost for body in algorithm.bodies()}
        if len(set(costs.values())) == 1:
            lines.append(f"- Cost: `{algorithm.bodies()[0].cost}`.")
        else:
            lines += [f"- Cost of `{label}`: `{cost}`." for label, cost in costs.items()]
        if algorithm.enumerated or algorithm.numbers:
            lines += ["", "| parameter | values | |", "|---|---|---|"]
        for one in algorithm.enumerated:
            first = f"[{one.values[0]}] " if one.optional else ""
            kept = f" (legacy: {', '.join(one.legacy)})" if one.legacy else ""
            lines.append(f"| {one.name} | {first}{', '.join(one.values)}{kept} | {one.about} |")
        for number in algorithm.numbers:
            when = "".join(f" (if {k} is {' or '.join(v)})" for k, v in number.when.items())
            first = f"[{number.text(number.min)}] " if number.optional else ""
            lines.append(f"| {number.name} | {first}{number.range}{when} | {number.about} |")
    return "\n".join(lines) + "\n"


def summary(console: Console, cluster: Cluster, decision: Decision, tuned: Tuned) -> None:
    """A line a row, what is uncertain, the figure that matters, and what to type next."""
    tables = shown(decision)
    for chosen in tables:
        console.print(_rows(chosen, describe(cluster) if len(tables) == 1 else chosen.title))
    for noise in tuned.noise[:1]:
        console.print(f"Measured on a disturbed cluster, as accepted: {noise}.", markup=False)
    if decision.tuned and decision.tuned.steal:
        console.print(f"Others had {decision.tuned.steal:.0%} of the processors meanwhile.")
    if not tuned.finished:
        console.print("The search did not come to its end: configure again goes on from here.")
        for line in tuned.uncertain:
            console.print(f"  uncertain: {line}", markup=False)
    for chosen in tables:
        said = f"On {chosen.title}: {verdict(chosen)}" if len(tables) > 1 else verdict(chosen)
        console.print(said, markup=False)
    console.print(
        "generated/alltoall.c is ready: compile it with your program and call ATALL_Alltoall. "
        "Next: make bench",
        soft_wrap=True,
    )


def _rows(chosen: DecisionTable, title: str) -> Table:
    """A table for people."""
    table = Table(title=title, box=box.SIMPLE)
    for heading in ("blocks", "variant"):
        table.add_column(heading)
    for heading in ("native takes", "runner-up takes", "of bound"):
        table.add_column(heading, justify="right")
    for low, cutoff in zip([1, *(c.most + 1 for c in chosen.cutoffs if c.most)], chosen.cutoffs):
        to = f"to {size_text(cutoff.most)}" if cutoff.most else f"from {size_text(low)}"
        table.add_row(to, cutoff.variant.label, *_figures(cutoff.evidence))
    return table


def _figures(evidence: Evidence | None) -> list[str]:
    """How many times longer native and the runner-up take, with intervals; the share of the
    bandwidth bound."""
    if evidence is None:
        return ["", "", ""]
    both = evidence.native, evidence.ahead
    ratios = [ratio_text(*r[:3]) if r else "" for r in both]
    return [*ratios, f"{evidence.of_limit:.0%}" if evidence.of_limit else ""]


def verdict(table: DecisionTable) -> str:
    """One line against the library: the figure that matters."""
    native = [c.evidence.native for c in table.cutoffs if c.evidence and c.evidence.native]
    if not native:
        return "Nothing measured beats the MPI library's own MPI_Alltoall here: it serves all."
    kept = len(table.cutoffs) - len(native)
    middle = geometric_mean([*(scores for *_, scores in native), *[1.0] * kept])
    return (
        f"The MPI library's own MPI_Alltoall takes {middle:.2f} times as long, in the geometric "
        f"mean of the rows, time-outs included"
        + (f" ({kept} of {len(table.cutoffs)} are its own)." if kept else ".")
    )
