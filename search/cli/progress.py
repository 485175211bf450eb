"""What a person sees of long work: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from search.sizes import size_text

PLAIN_SECONDS = 10.0
"""Without a terminal: at most one line in so many seconds."""


class Display:
    """Context manager that shows how far a search is. Implements runner.Watcher."""

    def __init__(self, console: Console, ranks: Sequence[int], sizes: Sequence[int]) -> None:
        self._console = console
        self._places = {(n, block) for n in ranks for block in sizes}
        self._several = len(ranks) > 1
        self._seen: set[tuple[int, int]] = set()
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
        self._task = self._progress.add_task("", total=len(self._places))

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def round(self, ranks: int, block: int, variants: int, fresh: bool) -> None:
        """A round of so many variants begins."""
        place = ranks, block
        is_new = place not in self._seen
        self._seen.add(place)
        text = f"{f'{ranks} ranks, ' if self._several else ''}block {size_text(block)}: "
        text += f"{variants} variant{'s' * (variants != 1)}"
        done = len(self._seen & self._places) - 1
        self._progress.update(self._task, description=text, completed=done)
        if self._console.is_terminal or not fresh:
            return
        if is_new or time.monotonic() - self._last > PLAIN_SECONDS:
            self._last = time.monotonic()
            self._console.print(f"  {text}", highlight=False)

    def say(self, text: str) -> None:
        """One line above the progress."""
        self._progress.console.print(f"  {text}", highlight=False, markup=False)
