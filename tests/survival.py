"""A tuning in a process of its own, to do harm to: what runs for it, and what it leaves."""

import os
import subprocess
import sys
import time
from pathlib import Path

from search.results.journal import any_journal
from search.toolchain import Toolchain

from .conftest import ROOT

DRIVER = """\
import sys
from search.cli import tuning
from search.__main__ import main
from search.cluster import asking, health
from search.measure import probe, visits
from search.cluster import job
tuning.CHOOSE_PATIENCE = probe.PATIENCE = visits.PATIENCE = {patience}
job.START_SECONDS = health.ANSWER_PAUSE = {patience}
sys.exit(main())
"""
"""The driver, less patient than it is with users."""
MARK = "ATALL_TEST_PLACE"
"""In the environment of all that runs for a tuning: where it is."""
THREE = "SwitchName=s0 Nodes=tiny[0-2] LinkSpeed=50\n"
LOCAL = ("--np=2", "--sizes=1,64", "--effort=quick", "--only=ring,bruck")
EMULATED = ("--emulate=tree.conf", "--sizes=64", "--effort=quick", "--only=ring,bruck")


class Tuning:
    """``configure`` at work in a build directory."""

    def __init__(self, place: Path, *options: str, patience: float = 5.0) -> None:
        self.place = place
        self.log = place / "said"
        with open(self.log, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", DRIVER.format(patience=patience), "configure", *options],
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), MARK: str(place)},
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float = 600.0) -> int:
        """The exit code; whatever happens it ends in time, and says no more than it should."""
        code = self.process.wait(seconds)
        assert "Traceback" not in self.said, self.said
        return code

    def running(self) -> dict[str, list[int]]:
        """The processes that it started, by what they are."""
        kinds: dict[str, list[int]] = {"rank": [], "proxy": [], "mpiexec": [], "netns": []}
        for pid in descendants(self.process.pid):
            words = command_line(pid)
            first = Path(words[0]).name if words else ""
            if words[:1] == [str(self.place / "build" / "measure")]:
                kinds["rank"].append(pid)
            elif first == "hydra_pmi_proxy":
                kinds["proxy"].append(pid)
            elif first.startswith("mpiexec"):
                kinds["mpiexec"].append(pid)
            elif words[-1:] == ["search.cluster.netns"] and first.startswith("python"):
                kinds["netns"].append(pid)
        return kinds

    def samples(self) -> int:
        """How many lines the journal has."""
        path = self.place / "build" / "measurements.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def pull(self, cable: int, state: str) -> None:
        """Set the switch's end of a host's cable down or up."""
        pid = self.running()["netns"][-1]
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        inside = ["nsenter", "--target", str(pid), *user, "--net", "--"]
        subprocess.run([*inside, "ip", "link", "set", f"c{cable}a", state], check=True)


def ends(place: Path, seconds: float = 60.0) -> bool:
    """Whether nothing runs any more, within so many seconds, of what tuning started anywhere."""
    end = time.monotonic() + seconds
    while left(place) and time.monotonic() < end:
        time.sleep(0.1)
    return not left(place)


def left(place: Path) -> list[str]:
    """What still runs."""
    mark = f"{MARK}={place}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(" ".join(command_line(int(path.parent.name))))
        except OSError:
            continue
    return found


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    children = [int(word) for word in text.split()]
    return children + [other for child in children for other in descendants(child)]


def build_directory(place: Path, tools: Toolchain, tree: str = "") -> Path:
    """A directory in which ./configure -n has run; with a switch tree as tree.conf."""
    place.mkdir(exist_ok=True)
    (place / "config.mk").write_text(
        f"MPICC = {tools.mpicc}\nMPIEXEC = {tools.mpiexec}\nCFLAGS = \n"
    )
    (place / "tree.conf").write_text(tree)
    return place


def failures(place: Path) -> dict[str, str]:
    """What the journal says is excluded, and why."""
    records = any_journal(place / "build" / "measurements.jsonl").records
    return {record.label: record.failure for record in records if record.failure is not None}
