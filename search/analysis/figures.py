"""The figures stage: what README and doc/results.md show, from one command.

Each emulated cluster of doc/clusters is tuned and benched anew, below build/figures; the tables and
the picture name the commit that they were measured at.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.analysis.bench import headline_of
from search.analysis.pictures import picture, ratio_axis
from search.errors import EnvironmentFailure, UserError
from search.files import write_whole
from search.sizes import size_text
from search.toolchain import SOURCE

README_CLUSTER = "two-switches"
README_BLOCKS = (1, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 262144)
BEGIN, END = "<!-- figures: two-switches -->", "<!-- end of figures -->"
"""Between these lines of the README stands what is measured."""
CLUSTERS = SOURCE / "doc" / "clusters"
HEAD = """\
# Results

Made by `make figures` at commit {commit}: each cluster of doc/clusters is emulated, tuned with
`./configure --emulate=FILE` and benched with `make bench`, {launches} launches each. Medians in
milliseconds; ratio = native / generated with its 95 % interval, launches included; "of bound" is
the share of the bandwidth bound that the generated file reaches.

It is an emulation on one machine: ratios and rankings carry over, absolute times do not. Where the
machine could not carry a cluster at its speed, time was dilated, and the caption says by how much.
"""


@dataclass(frozen=True)
class Result:
    """The bench of one cluster: what build/bench.json holds."""

    name: str
    content: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """One for each block."""
        return list(self.content["rows"])


def commit_of(source: Path) -> str:
    """The commit that is checked out, with a mark if it was changed."""
    words = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentFailure("git is missing: figures name the commit") from error
    if done.returncode:
        raise UserError(f"{source} is no git checkout: figures name the commit")
    return done.stdout.strip()


def make_figures(
    names: Sequence[str], root: Path, run: Callable[[Path, Path], Path], say: Callable[[str], None]
) -> None:
    """Write doc/results.md and doc/results.svg; ``run`` tunes and benches the cluster of a file in
    a directory, and returns its bench.json. No ``names``: all clusters."""
    files = [CLUSTERS / f"{name}.conf" for name in names] or sorted(CLUSTERS.glob("*.conf"))
    for path in files:
        if not path.exists():
            raise UserError(f"no cluster {path.stem} in doc/clusters")
    commit, results = commit_of(SOURCE), []
    for path in files:
        say(path.stem)
        bench = run(path, root / "build" / "figures" / path.stem)
        results.append(Result(path.stem, json.loads(bench.read_text(encoding="utf-8"))))
        write_whole(SOURCE / "doc" / "results.md", page(commit, results))
        write_whole(SOURCE / "doc" / "results.svg", ratios(results))
    if any(result.name == README_CLUSTER for result in results):
        readme = SOURCE / "README.md"
        write_whole(readme, with_figures(readme.read_text(encoding="utf-8"), commit, results))
    say("doc/results.md and doc/results.svg are written")


def with_figures(text: str, commit: str, results: Sequence[Result]) -> str:
    """The README with a small table of one cluster, and the picture of all."""
    (result,) = (result for result in results if result.name == README_CLUSTER)
    rows = [row for row in result.rows if row["block"] in README_BLOCKS]
    figures = "\n".join(
        [
            BEGIN,
            f"{result.content['cluster']}; {result.content['library']}.",
            headline_of(result.rows),
            f"`make figures` at {commit}: medians in milliseconds, ratio = native / generated",
            "with its 95 % interval.",
            "",
            table(rows),
            "![native / generated, by block and cluster](doc/results.svg)",
            END,
        ]
    )
    before, rest = text.split(BEGIN, 1)
    return before + figures + rest.split(END, 1)[1]


def page(commit: str, results: Sequence[Result]) -> str:
    """All tables, for readers."""
    launches = max(len(row["launches"]) for result in results for row in result.rows)
    parts = [HEAD.format(commit=commit, launches=launches), "![native / generated](results.svg)\n"]
    for result in results:
        where = f"{result.content['cluster']}; {result.content['library']}"
        said = f"{where}. {headline_of(result.rows)}\n"
        parts += [f"## {result.name}\n", said, table(result.rows)]
    return "\n".join(parts)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| block | native | generated | ratio | interval | of bound | retransmits | algorithm |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["ratio_interval"]
        share = f"{row['limit_s'] / row['generated_s']:.0%}" if row["limit_s"] else ""
        lost = "{native} / {generated}".format(**row["retransmissions"])
        cells = [
            size_text(row["block"]),
            f"{row['native_s'] * 1e3:.3g}",
            f"{row['generated_s'] * 1e3:.3g}",
            f"{row['ratio']:.2f}",
            f"{low:.2f}-{high:.2f}",
            share,
            lost,
            row["variant"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def ratios(results: Sequence[Result]) -> str:
    """A picture of ratios over blocks, a line for each cluster."""

    def draw(axes: Any) -> None:
        for result in results:
            blocks = [row["block"] for row in result.rows]
            values = [row["ratio"] for row in result.rows]
            axes.plot(blocks, values, marker="o", markersize=3, label=result.name)
        every = [row["ratio"] for result in results for row in result.rows]
        ratio_axis(axes, min(0.8, *every) / 1.1, 1.2 * max(2.0, *every))

    return picture(draw, "native / generated", "results", (9.0, 4.4), 3)
