"""Clocks that differ and drift are corrected: injected by a preload, and by time namespaces."""

import os
import subprocess
import time

import pytest

from search.cluster.job import Job
from search.results.workload import Team

from .conftest import ROOT

RANKS = 5
SKEW, DRIFT = 1000.0, 1e-3


@pytest.fixture(scope="module")
def program(tools, every_body, tmp_path_factory):
    place = tmp_path_factory.mktemp("clocks")
    for name, text in every_body.items():
        (place / name).write_text(text)
    tools.compile_job(place / "alltoall.c", place / "measure")
    tools.run(
        [tools.mpicc, "-std=gnu11", "-O2", "-shared", "-fPIC",
         str(ROOT / "tests" / "skewed_clock.c"), "-o", str(place / "skewed.so")],
        "compiling the skewed clock",
    )  # fmt: skip
    return place / "measure"


def start(tools, patient, program, *command, **settings):
    words = list(patient)
    if settings:
        preload = words.index("LD_PRELOAD") + 1
        words[preload] += f":{program.parent / 'skewed.so'}"
    extra = [word for key, value in settings.items() for word in ("-genv", key, str(value))]
    argv = [tools.mpiexec, *words, *extra, "-n", str(RANKS), *command, str(program)]
    return Job(argv, dict(os.environ), program.parent / "log")


def ahead(answer, rank, at):
    """By how much a rank's own clock is behind rank 0's, at a time of its own."""
    return answer["offsets"][rank] + answer["drifts"][rank] * at


def test_offsets_and_drifts_are_found(tools, patient, program):
    job = start(tools, patient, program, ATALL_SKEW=SKEW, ATALL_DRIFT=DRIFT)
    first = job.ask("clocks 20", 60)
    for _ in range(3):
        time.sleep(0.7)
        answer = job.ask("clocks 20", 60)
    now = time.monotonic()
    job.close()
    assert first["drifts"] == [0.0] * RANKS  # too soon to tell
    for rank in range(RANKS):
        assert ahead(answer, rank, now + rank * SKEW) == pytest.approx(-rank * SKEW, abs=0.5)
        assert answer["drifts"][rank] == pytest.approx(-rank * DRIFT, abs=0.3e-3)
    assert answer["error"] < 5e-3
    assert answer["skew"] < 0.1


def test_calls_are_timed_right_on_clocks_that_differ(tools, patient, program):
    """A time that forgot the correction would be a thousand seconds, or negative."""
    job = start(tools, patient, program, ATALL_SKEW=SKEW, ATALL_DRIFT=DRIFT)
    job.ask("clocks 20", 60)
    answer = job.ask("time generated 64 1 5 round", 60)
    job.close()
    assert len(answer["seconds"]) == 5
    assert all(0 < seconds < 5 for seconds in answer["seconds"])
    assert all(0 <= late < 5 for late in answer["late"])


def test_time_namespaces_are_corrected(tools, patient, program):
    script = (
        "exec unshare --user --map-root-user --time --monotonic $((PMI_RANK * 1000)) "
        '--fork --kill-child "$0"'
    )
    try:
        subprocess.run(["unshare", "-Ur", "--time", "--monotonic", "1", "--fork", "true"],
                       check=True, capture_output=True)  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no time namespaces here")
    job = start(tools, patient, program, "sh", "-c", script)
    answer = job.ask("clocks 20", 60)
    timed = job.ask("time generated 64 1 3 round", 60)
    job.close()
    for rank in range(RANKS):
        assert ahead(answer, rank, 0.0) == pytest.approx(-rank * 1000, abs=0.5)
    assert all(0 < seconds < 5 for seconds in timed["seconds"])


def test_a_loop_gives_the_mean_of_its_calls(tools, patient, program):
    job = start(tools, patient, program)
    answer = job.ask("time generated 64 1 50 loop", 60)
    refused = job.ask("time generated 64 1 50 often", 60)
    job.close()
    assert len(answer["seconds"]) == 1
    assert 0 < answer["seconds"][0] < 5
    assert "error" in refused


def test_fewer_ranks_can_be_at_work(tools, patient, program):
    job = start(tools, patient, program)
    for ranks in (3, 1, RANKS, 3):
        job.choose_team(Team(ranks))
        assert len(job.hosts) == ranks
        assert job.ask("verify generated 1000", 60) == {"verdict": "ok"}
        assert job.ask("verify library 1000", 60) == {"verdict": "ok"}
        assert len(job.ask("time generated 1 0 2 barrier", 60)["seconds"]) == 2
        look = job.ask("quiet 5", 60)
        assert len(look["work"]) == ranks
    assert "error" in job.ask(f"ranks {RANKS + 1}", 60)
    job.close()
