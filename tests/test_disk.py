"""Disks that are full, over quota or read-only: one clear line, and nothing is half-written."""

import builtins
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from search.cli.configured import write_cluster
from search.cli.settings import Settings
from search.cluster.hosts import Cluster, Host
from search.cluster.topology import single_switch
from search.decide.decision_file import write_decision
from search.emit.emission import emit_c, emit_h
from search.errors import EnvironmentFailure
from search.files import write_whole
from search.measure.probe import Machine, write_machine
from search.results.journal import Journal
from search.results.record import Record
from search.results.samples import Sample
from search.results.workload import Workload
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .survival import build_directory
from .test_configure import search

RECORDS = [Record(Workload(4, 64), "native", n, Sample((1e-3 + n,), spent=0.5)) for n in range(120)]


@pytest.fixture(scope="module")
def work(generic, catalogue):
    """Write all that a tuning writes, ``turn`` being what differs from one to the next."""
    text = emit_c(generic, catalogue, TEMPLATES)
    cluster = Cluster("ssh", (Host("n0", 2),), 2, single_switch(["n0"]))

    def write(place, turn, confirmed):
        write_cluster(place / "cluster.json", cluster, Settings((turn,), (64,)))
        write_machine(place / "machine.json", Machine(turn, 1e-5, 1e-5))
        journal = Journal(place / "journal.jsonl", "f")
        for record in RECORDS[len(journal.records) :]:
            journal.append(record)
            confirmed.append(record)
        write_whole(place / "decision.toml.c", f"{turn}")
        write_decision(place / "decision.toml", generic)
        write_whole(place / "alltoall.h", emit_h(TEMPLATES) + f"/* {turn} */\n")
        write_whole(place / "alltoall.c", text + f"/* {turn} */\n")

    return write


class Faulty:
    """From the ``good``-th operation on files on, a disk fails for as long as it lasts."""

    def __init__(self, monkeypatch, place, good, error):
        self.place, self.left, self.error = str(place), good, error
        self.open, self.fsync = builtins.open, os.fsync
        self.replace, self.truncate = Path.replace, os.truncate
        monkeypatch.setattr(builtins, "open", self.opened)
        monkeypatch.setattr(os, "fsync", self.guarded(self.fsync))
        monkeypatch.setattr(os, "truncate", self.guarded(self.truncate))
        monkeypatch.setattr(Path, "replace", self.guarded(self.replace))

    def spend(self):
        self.left -= 1
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))

    def guarded(self, function):
        def call(*words):
            self.spend()
            return function(*words)

        return call

    def opened(self, path, mode="r", *words, **more):
        writes = set(mode) & set("wa+") and str(path).startswith(self.place)
        if not writes:
            return self.open(path, mode, *words, **more)
        self.spend()
        handle = self.open(path, mode, *words, **more)
        plain = handle.write

        def write(text):
            try:
                self.spend()
            except OSError:
                plain(text[: len(text) // 2])  # as much as there was room for
                raise
            return plain(text)

        return _Handle(handle, write, self.guarded(handle.flush))


class _Handle:
    """A file that is written through a faulty disk."""

    def __init__(self, handle, write, flush):
        self.handle, self.write, self.flush = handle, write, flush
        self.fileno, self.tell = handle.fileno, handle.tell

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.close()


def contents(place):
    return {path.name: path.read_bytes() for path in place.iterdir() if path.suffix != ".new"}


@pytest.mark.parametrize(
    "error",
    [
        errno.ENOSPC,
        *(pytest.param(e, marks=pytest.mark.full) for e in (errno.EROFS, errno.EDQUOT, errno.EIO)),
    ],
)
def test_every_write_may_fail(tmp_path, work, monkeypatch, error):
    """The first, the second, ... each time all that follow, too; then the disk is mended."""
    whole = [tmp_path / "old", tmp_path / "new"]
    for turn, place in enumerate(whole):
        place.mkdir()
        work(place, turn, [])
    old, new = map(contents, whole)
    old["journal.jsonl"] = b"".join(old["journal.jsonl"].splitlines(True)[:5])
    place, good, failed = tmp_path / "here", 0, 0
    while failed == good:  # until nothing fails any more
        place.mkdir()
        for name, data in old.items():
            (place / name).write_bytes(data)
        confirmed = []
        with monkeypatch.context() as patch:
            Faulty(patch, place, good, error)
            try:
                work(place, 1, confirmed)
            except EnvironmentFailure as failure:
                failed += 1
                assert "cannot write" in str(failure)
                assert os.strerror(error) in str(failure)
                assert "\n" not in str(failure)
        for name in old.keys() - {"journal.jsonl"}:
            assert contents(place)[name] in (old[name], new[name]), (good, name)
        assert Journal(place / "journal.jsonl", "f").records[5:] == confirmed
        work(place, 1, [])
        assert contents(place) == new, good
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        good += 1
    assert failed > 200


FULL = """\
import os, sys
from pathlib import Path
from search.errors import EnvironmentFailure
from search.files import write_whole
from search.results.journal import Journal
from tests.test_disk import RECORDS
place = Path(sys.argv[1])
os.system(f"mount -t tmpfs -o size=16k tmpfs '{place}'")
write_whole(place / "alltoall.c", "old")
lines = []
journal, confirmed = Journal(place / "j", "f"), 0
for attempt in (journal.append, lambda _: write_whole(place / "alltoall.c", "new" * 9999)):
    try:
        for record in RECORDS * 9:
            attempt(record)
            confirmed += 1
        sys.exit("it was never full")
    except EnvironmentFailure as failure:
        lines.append(str(failure))
assert (place / "alltoall.c").read_text() == "old"
assert len(Journal(place / "j", "f").records) == confirmed > 20
os.system(f"mount -o remount,bind,ro '{place}'")
for attempt in (lambda: journal.append(RECORDS[0]), lambda: write_whole(place / "alltoall.c", "")):
    try:
        attempt()
        sys.exit("it was written")
    except EnvironmentFailure as failure:
        lines.append(str(failure))
assert (place / "alltoall.c").read_text() == "old"
print("\\n".join(lines))
"""


def in_mounts_of_its_own(argv, **more):
    """Run a command that may mount what nobody else sees."""
    unshare = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", "--"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*unshare, *argv], capture_output=True, text=True, env=environment, check=False, **more
    )


def test_a_small_file_system_that_fills_up_and_turns_read_only(tmp_path):
    done = in_mounts_of_its_own([sys.executable, "-c", FULL, str(tmp_path)])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.rsplit(": ", 1)[1] for line in lines] == [
        *["No space left on device"] * 2,
        *["Read-only file system"] * 2,
    ]


def test_stages_on_a_file_system_that_is_read_only(tools, tmp_path):
    place = build_directory(tmp_path / "place", tools)
    assert search(place, "generic").returncode == 0
    before = contents(place / "generated")
    for words in (
        [str(ROOT / "configure"), "--generic"],
        *([sys.executable, "-m", "search", *stage] for stage in (
            ["generic"], ["emit"], ["configure", "--np=2"], ["install", f"--prefix={place}/to"],
        )),
    ):  # fmt: skip
        read_only = f'mount --bind "{place}" "{place}" && mount -o remount,ro,bind "{place}"'
        script = f'{read_only} && cd "{place}" && exec "$@"'
        done = in_mounts_of_its_own(["sh", "-c", script, "sh", *words], timeout=600)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert re.search("cannot write|Read-only|can't create", done.stderr)
        assert contents(place / "generated") == before
