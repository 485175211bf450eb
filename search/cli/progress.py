"""What a person sees of long work: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Collection

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from search.results.workload import Workload
from search.sizes import size_text

PLAIN_SECONDS = 10.0
"""Without a terminal: at most one line in so many seconds."""


class Display:
    """Context manager that shows how far a search is. Implements runner.Watcher."""

    def __init__(self, console: Console, workloads: Collection[Workload]) -> None:
        self._console = console
        self._wanted = set(workloads)
        self._several = len({one.ranks for one in workloads}) > 1
        self._seen: set[Workload] = set()
        self._last = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} sizes"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("", total=len(self._wanted))

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def round(self, workload: Workload, variants: int, fresh: bool) -> None:
        """A round of so many variants begins."""
        is_new = workload not in self._seen
        self._seen.add(workload)
        ranks = f"{workload.ranks} ranks, " if self._several else ""
        text = (
            f"{ranks}block {size_text(workload.block)}: {variants} variant{'s' * (variants != 1)}"
        )
        done = len(self._seen & self._wanted) - 1
        self._progress.update(self._task, description=text, completed=done)
        if self._console.is_terminal or not fresh:
            return
        if is_new or time.monotonic() - self._last > PLAIN_SECONDS:
            self._last = time.monotonic()
            self._console.print(f"  {text}", highlight=False)

    def say(self, text: str) -> None:
        """One line above the progress."""
        self._progress.console.print(f"  {text}", highlight=False, markup=False)
