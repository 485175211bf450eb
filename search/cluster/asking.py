"""Shell words run on every host, as the launcher would run a program there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

MOST_AT_ONCE = 32


@dataclass(frozen=True)
class Answer:
    """What a command wrote, and why it failed, in one line, if it did."""

    text: str
    failure: str | None = None


def ask(
    hosts: Iterable[str], reach: Callable[[str], Sequence[str]], command: str, seconds: float
) -> dict[str, Answer]:
    """Run shell words on all hosts that can be reached, in parallel, for so long at the most;
    ``reach`` gives the words before them, none for a host to which there is no way."""
    known = {host: reach(host) for host in hosts}
    reached = [host for host, words in known.items() if words]
    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        answers = pool.map(lambda host: _answer([*known[host], command], seconds), reached)
        return dict(zip(reached, answers))


def _answer(argv: Sequence[str], seconds: float) -> Answer:
    """Run a command that is quick where all is well."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # files, since a pipe could be held open by what ssh leaves behind
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            return Answer("", f"cannot run {argv[0]}: {error.strerror}")
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return Answer("", f"no answer within {seconds:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said, words = [_read_from_start(file) for file in (output, errors)]
    lines = [line.strip() for line in words.split("\n") if line.strip()]
    return Answer(said, (lines or [f"{argv[0]} ended with {code}"])[-1] if code else None)


def _read_from_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
