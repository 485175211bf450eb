"""A long-lived MPI job that answers requests, one line each way, under a watchdog."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from search.errors import EnvironmentFailure
from search.results.workload import Team
from search.timeouts import USUAL, Timeouts

PREFIX = b"atall: "


ENDED_ON = (
    re.compile(rb"srun: error: Node failure on ([\w.-]+)"),  # then all tasks end, on every host
    re.compile(rb"PID \d+ RUNNING AT ([\w.-]+)"),  # Hydra, on standard output
    re.compile(rb"srun: error: ([\w.-]+): task"),
)
"""How launchers name the host on which the job came to its end, the surest word first."""
ALLOCATION_OVER = re.compile(
    rb"DUE TO TIME LIMIT|allocation .*has been revoked|Invalid job id|job .*has expired"
    rb"|Job/step already completing",
    re.IGNORECASE,
)
"""What Slurm says of a job whose time is over."""
FOLLOWS = re.compile(
    r"^=|FAQ page|typically refers|\bdemux\b|callback returned|launcher returned|terminated badly"
    r"|process manager error|assert \(!closed\)"
)
"""What Hydra says of any job that ends with an error, around what it was."""
MOST_QUOTED = 200
"""Characters of a line of the log."""
MOST_WORDS = 1 << 16
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class JobLost(EnvironmentFailure):
    """The job ended, on ``host`` if the launcher says so; or, ``silent``, it said nothing before
    its deadline."""

    def __init__(self, why: str, host: str = "", silent: bool = False) -> None:
        super().__init__(why + (f" on host {host}" if host else ""))
        self.why, self.host, self.silent = why, host, silent


def first_members(team: Team) -> str:
    """The first ranks of the job, as it takes them."""
    return str(team.ranks)


class Job:
    """The measuring job (probes/measure.c). At most one request is under way."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        sweep: Callable[[], None] = lambda: None,
        why_over: Callable[[], str] = lambda: "",
        timeouts: Timeouts = USUAL,
        members_of: Callable[[Team], str] = first_members,
    ) -> None:
        """Start it; ``sweep`` kills what a lost job leaves on the hosts, stderr goes to ``log``;
        ``why_over`` knows more of an allocation that is over; ``members_of`` says which ranks a
        team is, as the job takes it.

        Raises JobLost if it does not introduce itself in time.
        """
        self._sweep, self._why_over, self._timeouts = sweep, why_over, timeouts
        self._members_of = members_of
        self._buffer = b""
        self._words = b""
        self._over = False
        self._log = log
        try:
            with open(log, "ab") as errors:
                self._log_begin = errors.tell()
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=dict(environment),
                    start_new_session=True,
                    preexec_fn=_end_with_driver,
                )
        except OSError as error:
            what = f"write {log}" if error.filename == str(log) else f"run {argv[0]}"
            raise EnvironmentFailure(f"cannot {what}: {error.strerror}") from error
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            answer: dict[str, Any] = {}
            while "library" not in answer:
                answer = self._answer(time.monotonic() + timeouts.start)
        except JobLost as error:
            words = self._last_words()  # before those of a launcher that is killed
            self.kill()
            why = f"the MPI job does not start: {error.why}{words}: see {log}"
            raise JobLost(why, error.host, error.silent) from error
        except BaseException:
            self.kill()
            raise
        self.library = " ".join(str(answer["library"]).replace("Version:", "").split())
        self.forced: list[str] = answer["forced"]
        """labels of the library's own algorithms, each forced"""
        self._introduced(answer)

    def choose_grid(self, rows: int, columns: int) -> None:
        """Let the communicators that are chosen from here on be a process grid's."""
        self.ask(f"grid {rows} {columns}")

    def choose_team(self, team: Team) -> None:
        """Let these ranks be at work from here on; of a grid, all its communicators with so
        many."""
        self._introduced(self.ask(f"ranks {self._members_of(team)}"))

    def _introduced(self, answer: Mapping[str, Any]) -> None:
        """What the ranks at work say of themselves."""
        self.hosts: list[str] = answer["hosts"]
        self.rankings: list[str] = answer["rankings"]
        """the values of ``ranking`` that number these ranks each in a way of its own"""
        self.phases: int = answer.get("phases", 0)
        """that are planned for these ranks; 0: not planned"""
        self.over_bound: float = answer.get("over_bound", 1.0)
        """what they take, over what they must"""

    def ask(self, request: str, seconds: float | None = None) -> dict[str, Any]:
        """Send one request and return its answer; JobLost if it ends, or after ``seconds``
        (usually those of any answer)."""
        seconds = self._timeouts.answer if seconds is None else seconds
        assert self._process.stdin
        try:
            self._process.stdin.write(request.encode("ascii") + b"\n")
            self._process.stdin.flush()
        except OSError:
            seconds = min(seconds, self._timeouts.stop)  # it is gone: read its last words
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
                self._words = (self._words + line + b"\n")[-MOST_WORDS:]
                continue
            if not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise JobLost("no answer before the deadline", silent=True)
            assert self._process.stdout
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                if ALLOCATION_OVER.search(self._said()):
                    raise EnvironmentFailure(
                        f"the Slurm allocation is over{self._why_over()}: run configure again in "
                        "another one, it goes on where it stopped"
                    )
                raise JobLost("the job ended", self._ended_on())
            self._buffer += chunk

    def _ended_on(self) -> str:
        """The host on which the job came to its end, if the launcher named it."""
        said = self._said()
        found = (pattern.search(said) for pattern in ENDED_ON)
        return next((match[1].decode() for match in found if match), "")

    def _said(self) -> bytes:
        """What the launcher and the ranks said, but for answers."""
        said = self._words
        with contextlib.suppress(OSError), open(self._log, "rb") as log:
            log.seek(self._log_begin)
            said += log.read(MOST_WORDS)
        return said

    def _last_words(self) -> str:
        """The last line of that which tells something, to be quoted behind what happened; nothing
        if there is none."""
        lines = [line.strip() for line in self._said().decode(errors="replace").splitlines()]
        telling = [line for line in lines if re.search(r"\w", line) and not FOLLOWS.search(line)]
        last = telling[-1] if telling else ""
        return f" ({last[:MOST_QUOTED]!r})" if last else ""

    def close(self) -> None:
        """Ask the job to end; kill it if it does not."""
        if self._over:
            return
        try:
            self.ask("quit", self._timeouts.stop)
            self._process.wait(self._timeouts.stop)
        except (EnvironmentFailure, subprocess.TimeoutExpired):
            self.kill()
        else:
            self._release()

    def kill(self) -> None:
        """End the job and whatever it left; once is enough."""
        if self._over:
            return
        left = _descendants(self._process.pid)
        for number, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
            if self._process.poll() is not None:
                break
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        for pid, begun in left.items():  # a proxy that was stopped does not end with mpiexec
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if _begun(pid) == begun:
                    os.kill(pid, signal.SIGKILL)
        self._sweep()
        self._release()

    def _release(self) -> None:
        self._over = True
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):  # unsent bytes for a job that is gone
                    stream.close()


def _end_with_driver() -> None:
    """In the launcher: be killed when the driver is; one that hangs sees no end of its input."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _begun(pid: int) -> bytes:
    """When a process began: with its number that names it for good; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return b""


def _descendants(pid: int) -> dict[int, bytes]:
    """What a process started on this host, and when that began."""
    found: dict[int, bytes] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
            children = [int(word) for word in text.split()]
            found |= {child: _begun(child) for child in children}
            waiting += children
    return found
