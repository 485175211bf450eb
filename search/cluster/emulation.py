"""An emulated cluster for as long as it is used: see netns.py for what is inside.

The namespaces belong to a process of their own; nothing of them survives it, and it does not
survive us, whatever we die of.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from search.cluster.hosts import Cluster
from search.cluster.netns import FOLDER, INTERFACE
from search.errors import EnvironmentFailure

ENTER = str(FOLDER / "enter")
"""Runs a command on an emulated host, with ssh's arguments; a path inside the emulation."""


class Emulation:
    """Context manager: the emulated cluster exists between entry and exit."""

    def __init__(self, cluster: Cluster, preload: Path | None = None) -> None:
        """``preload`` is a library that will be at netns.PRELOAD inside."""
        self.cluster, self.preload = cluster, preload
        self.interface = INTERFACE
        self._process: subprocess.Popen[str] | None = None
        self._dilation = 1
        self._prefix: list[str] = []

    def __enter__(self) -> Emulation:
        root = os.geteuid() == 0
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        try:
            process = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    "-nm" if root else "-Urnm",
                    "--uts",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    sys.executable,
                    "-m",
                    "search.cluster.netns",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise EnvironmentFailure(f"{error.filename} is missing: install util-linux") from error
        self._process = process
        try:
            self._build(process)
            self._prefix = [
                "nsenter",
                "--target",
                str(_only_child(process.pid)),
                *([] if root else ["--user", "--preserve-credentials"]),
                "--net",
                "--mount",
                "--pid",
                "--",
            ]
        except BaseException:
            self.close()
            raise
        return self

    def _build(self, process: subprocess.Popen[str]) -> None:
        tree = self.cluster.topology
        request = {
            "hosts": tree.hosts,
            "switches": tree.switches,
            "links": [[link.upper, link.lower, link.mbit] for link in tree.links],
            "buffer": self.cluster.buffer,
            "dilation": self.cluster.dilation,
            "preload": str(self.preload) if self.preload else None,
        }
        self._ask(process, request)
        self._dilation = self.cluster.dilation

    def dilate(self, dilation: int) -> None:
        """Let time pass so many times slower on all links, and in TCP's time-outs; nothing should
        be on its way."""
        if dilation != self._dilation and self._process:
            self._ask(self._process, {"dilation": dilation})
            self._dilation = dilation

    def _ask(self, process: subprocess.Popen[str], request: Mapping[str, Any]) -> None:
        """Put one request, and wait until it is done."""
        assert process.stdin and process.stdout and process.stderr
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words are on standard error
        answer = process.stdout.readline()
        if not answer:
            words = process.stderr.read().strip().splitlines() or ["no reason given"]
            raise EnvironmentFailure(f"cannot emulate a cluster: {words[-1]} ({_cure(words[-1])})")
        reply = json.loads(answer)
        if "error" in reply:
            raise EnvironmentFailure(f"cannot emulate a cluster: {reply['error']}")

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs ``argv`` among the switches."""
        return [*self._prefix, *argv]

    def on_host(self, host: str, argv: Sequence[str]) -> list[str]:
        """The command line that runs ``argv`` on a host; like ssh, enter takes shell words."""
        return self.inside([ENTER, host, shlex.join(argv)])

    def kill_all(self) -> None:
        """Kill whatever runs on the hosts."""
        subprocess.run(
            self.inside(["sh", "-c", "kill -9 -1"]),
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Take the cluster down, and all that runs on it."""
        process, self._process = self._process, None
        if process:
            process.kill()  # --kill-child takes PID 1, and so everything, with it
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _cure(words: str) -> str:
    """What helps where no namespaces could be made."""
    if "propagation" in words:
        return "in a chroot: enter it by pivot_root, or 'mount --bind' its root on itself before"
    return "user namespaces must be allowed, or run as root"


def _only_child(pid: int) -> int:
    """PID 1 of the emulation, as it is called out here."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    if len(text) != 1:
        raise EnvironmentFailure("cannot emulate a cluster: its first process is gone")
    return int(text[0])
