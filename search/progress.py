"""What a person sees of long work: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0
"""Without a terminal: at most one line in so many seconds."""


def size_text(block: int) -> str:
    """Bytes as people write them: 1024 is 1 KiB."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if block >= factor and block % (factor // 4) == 0:
            return f"{block / factor:g} {unit}"
    return f"{block} B"


class Display:
    """Context manager that shows how far a search over ``sizes`` is. Implements runner.Watcher."""

    def __init__(self, console: Console, sizes: Sequence[int]) -> None:
        self._console, self._sizes = console, list(sizes)
        self._seen: list[int] = []
        self._last = time.monotonic()
        self._reused = 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} sizes"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("", total=len(self._sizes))

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def round(self, block: int, variants: int, fresh: bool) -> None:
        """A round of so many variants begins."""
        is_new = block not in self._seen
        if is_new:
            self._seen.append(block)
        done = len([b for b in self._seen if b in self._sizes]) - 1
        refining = block not in self._sizes
        total = max(len(self._sizes), done + 1)
        text = f"{'cut-off' if refining else 'block'} {size_text(block)}: {variants} variants"
        self._progress.update(
            self._task, description=text, total=total, completed=total if refining else done
        )
        if self._console.is_terminal or not fresh:
            return
        if is_new or time.monotonic() - self._last > PLAIN_SECONDS:
            self._last = time.monotonic()
            where = "refining" if refining else f"{done + 1} of {total}"
            self._console.print(f"  {where}: {text}", highlight=False)

    def say(self, text: str) -> None:
        """One line above the progress."""
        self._progress.console.print(f"  {text}", highlight=False, markup=False)
