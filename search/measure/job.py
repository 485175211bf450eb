"""A long-lived MPI job that answers requests, one line each way, under a watchdog."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from search.errors import EnvironmentFailure

PREFIX = b"atall: "
START_SECONDS = 60.0
STOP_SECONDS = 2.0


class JobLost(Exception):
    """The job ended, or said nothing before its deadline."""


class Job:
    """The measuring job (probes/measure.c). At most one request is under way."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        sweep: Callable[[], None] = lambda: None,
    ) -> None:
        """Start it; ``sweep`` kills what a lost job leaves on the hosts, stderr goes to ``log``.

        Raises EnvironmentFailure if it does not introduce itself within START_SECONDS.
        """
        self._sweep = sweep
        self._buffer = b""
        self._killed = False
        with open(log, "ab") as errors:
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=dict(environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise EnvironmentFailure(f"cannot run {argv[0]}: {error.strerror}") from error
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            answer: dict[str, Any] = {}
            while "library" not in answer:
                answer = self._answer(time.monotonic() + START_SECONDS)
        except JobLost as error:
            self.kill()
            raise EnvironmentFailure(f"the MPI job does not start: {error}: see {log}") from error
        except BaseException:
            self.kill()
            raise
        self.library = " ".join(str(answer["library"]).replace("Version:", "").split())
        self.forced: list[str] = answer["forced"]
        """labels of the library's own algorithms, each forced"""
        self._introduced(answer)

    def choose_grid(self, rows: int, columns: int) -> None:
        """Let the communicators that are chosen from here on be a process grid's."""
        self.ask(f"grid {rows} {columns}", START_SECONDS)

    def choose_ranks(self, ranks: int, seconds: float) -> None:
        """Let the first so many ranks be at work from here on; of a grid, all its communicators
        with so many."""
        self._introduced(self.ask(f"ranks {ranks}", seconds))

    def _introduced(self, answer: Mapping[str, Any]) -> None:
        """What the ranks at work say of themselves."""
        self.hosts: list[str] = answer["hosts"]
        self.rankings: list[str] = answer["rankings"]
        """the values of ``ranking`` that number these ranks each in a way of its own"""
        self.phases: int = answer.get("phases", 0)
        self.least_phases: int = answer.get("least", 0)
        """phases that are planned for these ranks, and that there must be; 0: not planned"""

    def ask(self, request: str, seconds: float) -> dict[str, Any]:
        """Send one request and return its answer; JobLost after ``seconds`` or if it ends."""
        assert self._process.stdin
        try:
            self._process.stdin.write(request.encode("ascii") + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise JobLost("the job is gone") from error
        return self._answer(time.monotonic() + seconds)

    def _answer(self, deadline: float) -> dict[str, Any]:
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if line.startswith(PREFIX):  # mpiexec prints text of its own
                    try:
                        return dict(json.loads(line[len(PREFIX) :]))
                    except ValueError as error:
                        raise JobLost("the job's answer is damaged") from error
                continue
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise JobLost("no answer before the deadline")
            assert self._process.stdout
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise JobLost("the job ended")
            self._buffer += chunk

    def close(self) -> None:
        """Ask the job to end; kill it if it does not within STOP_SECONDS."""
        try:
            self.ask("quit", STOP_SECONDS)
            self._process.wait(STOP_SECONDS)
        except (JobLost, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        """End the job and whatever it left; once is enough."""
        if self._killed:
            return
        self._killed = True
        for number, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
            if self._process.poll() is not None:
                break
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        self._sweep()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):  # unsent bytes for a job that is gone
                    stream.close()
