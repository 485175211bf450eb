"""Ranks, launchers, cables, hosts and the driver itself fail while it tunes."""

import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest

from search.cluster.hosts import Cluster, Host
from search.cluster.job import JobLost
from search.cluster.site import Site
from search.cluster.topology_file import parse_conf
from search.errors import HostsFailed
from search.timeouts import Timeouts

from .survival import EMULATED, LOCAL, THREE, Tuning, build_directory, ends, failures, left
from .test_configure import gone, search

INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


def await_samples(tuning, more, seconds=300):
    """Wait until the journal has so many lines more, or tuning is over."""
    least, end = tuning.samples() + more, time.monotonic() + seconds
    while tuning.samples() < least and not tuning.ended():
        assert time.monotonic() < end, tuning.said
        time.sleep(0.02)


def strike(tuning, kind, number=signal.SIGKILL, which=-1):
    """Send a signal to a rank, a proxy or mpiexec as soon as there is one; False if all is over."""
    end = time.monotonic() + 300
    while not tuning.ended():
        assert time.monotonic() < end, tuning.said
        found = tuning.running()[kind]
        if found:
            try:
                os.kill(found[which % len(found)], number)
                return True
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    return False


def strike_until(words, tuning, kind, number=signal.SIGKILL):
    """Strike, 60 lines of the journal further on each time, until tuning says so: nobody misses a
    job that was about to end anyway."""
    said, end = tuning.said.count(words), time.monotonic() + 300
    while tuning.said.count(words) == said:
        assert time.monotonic() < end, tuning.said
        await_samples(tuning, 60)
        assert not tuning.ended(), tuning.said
        assert strike(tuning, kind, number)
        least = tuning.samples() + 10
        while tuning.said.count(words) == said and tuning.samples() < least:
            assert time.monotonic() < end, tuning.said
            time.sleep(0.02)


def lines(place):
    """The journal's lines that are whole."""
    path = place / "build" / "measurements.jsonl"
    return (
        path.read_bytes().splitlines(True)[: path.read_bytes().count(b"\n")]
        if path.exists()
        else []
    )


def finish(place, *options):
    """Tune to the end: nothing may be wrong, left, or other than what the journal says."""
    tuning = Tuning(place, *options)
    assert tuning.wait() == 0, tuning.said
    assert failures(place) == {}, tuning.said
    assert ends(place), left(place)
    files = [place / "generated" / name for name in ("decision.toml", "alltoall.c", "alltoall.h")]
    before = [path.read_bytes() for path in files]
    shutil.rmtree(place / "generated")
    for stage in ("decide", "emit"):
        done = search(place, stage)
        assert done.returncode == 0, done.stderr
    assert [path.read_bytes() for path in files] == before
    return tuning.said


@pytest.mark.full
def test_what_is_killed_or_stopped_is_started_again(tools, tmp_path):
    place = build_directory(tmp_path / "killed", tools)
    tuning = Tuning(place, *LOCAL, "--sizes=1,8,64,512,4K,32K", patience=3)
    for kind in ("proxy", "mpiexec", "rank"):
        strike_until("the job ended", tuning, kind)
    strike_until("no answer before the deadline", tuning, "rank", signal.SIGSTOP)
    assert tuning.wait() == 0, tuning.said
    assert failures(place) == {}
    assert ends(place), left(place)


@pytest.mark.full
def test_a_host_that_fails_twice_is_named_and_another_time_all_goes_on(tools, tmp_path):
    place = build_directory(tmp_path / "bad host", tools)
    tuning = Tuning(place, *LOCAL)
    for _ in range(2):
        strike_until("the job ended", tuning, "rank")
    assert tuning.wait() == 2, tuning.said
    last = tuning.said.splitlines()[-1]
    assert last.startswith(
        f"atall: host {os.uname().nodename.split('.')[0]} failed twice: the job "
    )
    assert "run configure again" in last
    assert not (place / "generated").exists()
    assert ends(place), left(place)
    kept = lines(place)
    assert f"{len(kept)} records are there already" in finish(place, *LOCAL)
    assert lines(place)[: len(kept)] == kept


def test_a_host_whose_cable_is_out_is_named(tools, emulation, every_body, tmp_path):
    place = build_directory(tmp_path / "out", tools)
    for name, text in every_body.items():
        (place / name).write_text(text)
    tools.compile_job(place / "alltoall.c", place / "measure")
    tree = parse_conf(THREE, "here")
    hosts = tuple(Host(name, 1) for name in tree.hosts)
    cluster = Cluster("emulated", hosts, 3, tree, buffer=32768)
    with Site(cluster, tools, place, timeouts=Timeouts(cable=0.5)) as site:
        cable = site.backend.emulation.inside(["ip", "link", "set", "c1a"])
        job = site.start_job(place / "measure")
        subprocess.run([*cable, "down"], check=True)
        mend = threading.Timer(1.0, subprocess.run, [[*cable, "up"]])
        mend.start()
        assert "seconds" in job.ask("time native 8192 0 1 barrier", 60)
        mend.join()
        site.health.check()
        subprocess.run([*cable, "down"], check=True)
        with pytest.raises(JobLost, match="no answer before the deadline") as lost:
            job.ask("time native 8192 0 1 barrier", 2)
        job.kill()
        site.health.blame([lost.value])
        with pytest.raises(HostsFailed, match="tiny1 failed twice: no route to host tiny1") as bad:
            site.start_job(place / "measure")
        assert bad.value.hosts == ("tiny1",)
    assert gone(str(place))


@pytest.mark.full
def test_a_cable_is_pulled_for_a_moment_then_for_good_and_all_goes_on_without(tools, tmp_path):
    place = build_directory(tmp_path / "cable", tools, THREE)
    tuning = Tuning(place, *EMULATED, "--accept-noise", "--allow-shrink", patience=3)
    await_samples(tuning, 20)
    tuning.pull(1, "down")
    time.sleep(1.5)
    tuning.pull(1, "up")
    await_samples(tuning, 20)
    assert not tuning.ended(), tuning.said
    tuning.pull(1, "down")
    assert tuning.wait() == 0, tuning.said
    assert "excluded: host tiny1 failed twice: no route to host tiny1: mend it" in tuning.said
    assert "without tiny1, all is measured anew: 2 ranks on 2 emulated hosts" in tuning.said
    assert failures(place) == {}
    assert "2 ranks on 2 host(s)" in (place / "generated" / "alltoall.c").read_text()
    assert ends(place), left(place)


@pytest.mark.full
def test_a_host_on_which_ranks_die_is_left_out_or_named(tools, tmp_path):
    for options in ([], ["--allow-shrink"]):
        place = build_directory(tmp_path / f"host{len(options)}", tools, THREE)
        tuning = Tuning(place, *EMULATED, "--accept-noise", *options)
        for _ in range(2):
            await_samples(tuning, 20)
            strike(tuning, "rank", which=2)
        assert tuning.wait() == (0 if options else 2), tuning.said
        (host,) = [f"tiny{i}" for i in range(3) if f"host tiny{i} failed twice" in tuning.said]
        if options:
            assert f"cluster: without {host}, all is measured anew: 2 ranks" in tuning.said
            assert "2 ranks on 2 host(s)" in (place / "generated" / "alltoall.c").read_text()
        else:
            assert "--allow-shrink" in tuning.said.splitlines()[-1]
        assert ends(place), left(place)


def test_the_driver_is_killed_while_its_job_hangs(tools, tmp_path):
    """mpiexec cannot see that nobody asks any more."""
    place = build_directory(tmp_path / "orphans", tools)
    tuning = Tuning(place, *LOCAL, patience=60)
    await_samples(tuning, 30)
    strike(tuning, "rank", signal.SIGSTOP)
    time.sleep(0.3)
    tuning.process.kill()
    tuning.process.wait()
    assert ends(place), left(place)


@pytest.mark.parametrize(
    "ranks",
    ['-n 1 "$program" : -n 1 sleep 4321', pytest.param("-n 2 sleep 4321", marks=pytest.mark.full)],
)
def test_a_rank_that_never_comes_to_mpi_init(tools, tmp_path, ranks):
    place = build_directory(tmp_path / "sleeper", tools)
    wrapper = place / "mpiexec"
    wrapper.write_text(f"#!/bin/sh\nfor program; do :; done\nexec {tools.mpiexec} {ranks}\n")
    wrapper.chmod(0o755)
    text = (place / "config.mk").read_text()
    (place / "config.mk").write_text(
        text.replace(f"MPIEXEC = {tools.mpiexec}", f"MPIEXEC = {wrapper}")
    )
    tuning = Tuning(place, *LOCAL, patience=3)
    assert tuning.wait() == 2
    assert (
        "the MPI job does not start: no answer before the deadline" in tuning.said.splitlines()[-1]
    )
    assert ends(place), left(place)


def interrupted(place, number, chance):
    """Begin to tune, and be interrupted at some time; lines that were there stay there."""
    before = lines(place)
    tuning = Tuning(place, *LOCAL)
    if chance.random() < 0.3:
        time.sleep(chance.uniform(0.2, 4))  # wherever that is
    else:
        await_samples(tuning, chance.randrange(1, 120))
    if not tuning.ended():
        tuning.process.send_signal(number)
    code = tuning.process.wait(120)
    assert code in (0, 4, -number), (number, tuning.said)
    if code == 4:
        assert "interrupted; run the same command again to go on" in tuning.said
    assert ends(place), (number, left(place))
    assert lines(place)[: len(before)] == before
    return tuning


@pytest.mark.full
def test_interrupted_tuning_goes_on_and_comes_to_the_same(tools, tmp_path):
    place = build_directory(tmp_path / "interrupted", tools)
    chance = random.Random(1)
    for number in (signal.SIGKILL, signal.SIGHUP):  # test_configure has SIGTERM
        interrupted(place, number, chance)
    count = len(lines(place))
    said = finish(place, *LOCAL)
    assert not count or f"{count} records are there already" in said


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_interrupts(tools, tmp_path, seed):
    place = build_directory(tmp_path / "interrupted", tools)
    chance = random.Random(f"interrupt {seed}")
    for _ in range(10):
        interrupted(place, chance.choice(INTERRUPTS), chance)
    finish(place, *LOCAL)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_kills(tools, tmp_path, seed):
    """At any time, of the set-up as of the search. Every run ends in time, and never wrongly."""
    place = build_directory(tmp_path / "killed", tools)
    chance = random.Random(f"kill {seed}")
    kills = 0
    while kills < 20:
        kept = lines(place)
        tuning = Tuning(place, *LOCAL)
        while kills < 20 and not tuning.ended():
            time.sleep(chance.uniform(0.1, 2))
            kind = chance.choice(["rank", "proxy", "mpiexec"])
            kills += strike(tuning, kind, which=chance.randrange(2))
        code = tuning.wait()
        assert code in (0, 2), tuning.said
        assert ends(place), left(place)
        assert lines(place)[: len(kept)] == kept
        if code == 0:
            shutil.rmtree(place / "build")
            shutil.rmtree(place / "generated")
    finish(place, *LOCAL)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_many_hangs(tools, tmp_path, seed):
    place = build_directory(tmp_path / "hung", tools)
    chance = random.Random(f"hang {seed}")
    hangs = 0
    while hangs < 10:
        tuning = Tuning(place, *LOCAL, patience=3)
        while hangs < 10 and not tuning.ended():
            time.sleep(chance.uniform(0.1, 2))
            kind = chance.choice(["rank", "proxy"])
            hangs += strike(tuning, kind, signal.SIGSTOP, chance.randrange(2))
            time.sleep(4)
        code = tuning.wait()
        assert code in (0, 2), tuning.said
        assert ends(place), left(place)
        if code == 0:
            assert failures(place) == {}
            shutil.rmtree(place / "build")
    finish(place, *LOCAL)
