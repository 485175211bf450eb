"""Rows and columns of a process grid: who calls at once, on what, and what a tuning makes of it."""

import json
import os

import pytest

from search.cli.configured import make_cluster, read_cluster, write_cluster
from search.cli.options import parser
from search.cli.settings import Settings
from search.cluster.job import Job
from search.errors import UserError
from search.results.workload import Team, Workload

from .test_configure import TINY, configure


@pytest.fixture
def emulated(tmp_path):
    """A cluster of two hosts on each of two switches, with further options."""
    (tmp_path / "tiny.conf").write_text(TINY)

    def make(*options):
        words = ["configure", f"--emulate={tmp_path}/tiny.conf", *options]
        return make_cluster(parser().parse_args(words), {})[0]

    return make


def lists(cluster, ranks):
    return [[list(members) for members in alike] for alike in cluster.communicators(Team(ranks))]


def test_rows_and_columns(emulated, tmp_path):
    wide = emulated("--grid=2x4", "--emulate-slots=2")
    assert wide.ranks == 8
    assert lists(wide, 4) == [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    assert lists(wide, 2) == [[[0, 4], [1, 5], [2, 6], [3, 7]]]
    assert lists(wide, 8) == [[list(range(8))]]
    assert (wide.each(Team(4)), wide.each(Team(2)), wide.each(Team(8))) == (2, 1, 2)
    square = emulated("--grid=2x2")
    assert lists(square, 2) == [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    assert lists(emulated("--np=3"), 3) == [[[0, 1, 2]]]
    write_cluster(tmp_path / "c.json", wide, Settings((4,), (64,)))
    assert read_cluster(tmp_path / "c.json")[0] == wide


def test_the_limit_is_that_of_all_at_once(emulated):
    """Four hosts with a rank each, 20 Mbit/s: columns cross the trunk together, rows do not."""
    alone, block = emulated().limit(Workload(4, 1000)), 1000
    wire = alone / 4  # seconds for a block: four of them cross the trunk each way
    assert emulated("--grid=1x4").limit(Workload(4, block)) == pytest.approx(alone)
    assert emulated("--grid=2x2").limit(Workload(2, block)) == pytest.approx((1 + 2) * wire)
    assert emulated("--grid=2x2").limit(Workload(4, block)) == pytest.approx(alone)


def test_options_that_do_not_fit(emulated):
    with pytest.raises(UserError, match="--grid: 9 ranks are wanted, the hosts have 4 slots"):
        emulated("--grid=3x3")
    for wrong in ("0x4", "4", "2x", "1x1", "2x2x2", "-1x4"):
        with pytest.raises(UserError, match="--grid.*4x8"):
            emulated(f"--grid={wrong}")


@pytest.fixture
def job(tools, patient, every_body, tmp_path):
    """Seven ranks that record; a grid of 2 x 3 leaves one out."""
    for name, text in every_body.items():
        (tmp_path / name).write_text(text)
    tools.compile_job(
        tmp_path / "alltoall.c", tmp_path / "measure", ["ATALL_EVERY", "ATALL_RECORD"]
    )
    argv = [tools.mpiexec, *patient, "-n", "7", str(tmp_path / "measure")]
    started = Job(argv, dict(os.environ), tmp_path / "log")
    yield started
    started.kill()


def sends(job):
    """Sender and receiver, as its communicator numbers it, of the blocks of a recorded ring."""
    messages = job.ask("record ring(sync=none) 100", 60)["messages"]
    return [(rank, peer) for rank, received, peer, _, size, *_ in messages if size and not received]


def test_all_communicators_are_at_work_at_once(job):
    job.choose_grid(2, 3)
    for ranks in (3, 2, 3):
        job.choose_team(Team(ranks))
        assert len(job.hosts) == 6
        for label in ("ring(sync=none)", "bruck(radix=2)", "native", "generated"):
            assert job.ask(f"verify {label} 100", 60) == {"verdict": "ok"}
            assert job.ask(f"time {label} 100 1 3 barrier", 60)["seconds"]
            assert job.ask(f"time {label} 100 1 3 round", 60)["seconds"]
        messages = job.ask("record ring(sync=none) 100", 60)["messages"]
        sent = [
            (rank, peer) for rank, received, peer, _, size, *_ in messages if size and not received
        ]
        assert sorted({rank for rank, _ in sent}) == list(range(6))
        assert {peer for _, peer in sent} == set(range(ranks))
        assert len(sent) == 6 * (ranks - 1)
    assert "error" in job.ask("ranks 4", 60)
    assert "error" in job.ask("grid 1 6", 60)
    job.close()


def test_a_square_calls_on_rows_then_on_columns(job):
    job.choose_grid(2, 2)
    job.choose_team(Team(2))
    assert job.ask("verify ring(sync=none) 100", 60) == {"verdict": "ok"}
    assert len(sends(job)) == 4 + 4
    job.close()


def test_who_is_wrong_on_a_row_still_takes_part_in_its_column(tools, patient, every_body, tmp_path):
    """Else the others of the column would wait for it."""
    begin = "static int atall_copy_own(const struct atall_call *call)\n{\n"
    lazy = (
        "    int all;\n    PMPI_Comm_rank(MPI_COMM_WORLD, &all);\n"
        "    if (all == 0)\n        return MPI_SUCCESS;\n"
    )
    assert begin in every_body["alltoall.c"]
    (tmp_path / "alltoall.h").write_text(every_body["alltoall.h"])
    source = tmp_path / "alltoall.c"
    source.write_text(every_body["alltoall.c"].replace(begin, begin + lazy))
    tools.compile_job(source, tmp_path / "measure", ["ATALL_EVERY"])
    argv = [tools.mpiexec, *patient, "-n", "4", str(tmp_path / "measure")]
    job = Job(argv, dict(os.environ), tmp_path / "log")
    job.choose_grid(2, 2)
    job.choose_team(Team(2))
    assert job.ask("verify ring(sync=none) 100", 20)["verdict"] != "ok"
    assert job.ask("verify native 100", 20) == {"verdict": "ok"}
    job.close()


@pytest.mark.full
def test_a_grid_is_tuned_and_another_one_measured_anew(tools, emulation, tmp_path):
    (tmp_path / "tiny.conf").write_text(TINY)
    common = [
        "--emulate=tiny.conf",
        "--effort=quick",
        "--sizes=1,4K",
        "--only=ring",
        "--accept-noise",
    ]
    done = configure(tools, tmp_path, "--grid=2x2", *common)
    assert done.returncode == 0, done.stderr
    assert "a grid of 2 x 2" in done.stdout
    text = (tmp_path / "generated" / "alltoall.c").read_text()
    assert "for 4 ranks in a grid of 2 x 2 on 4 host(s)" in text
    assert "Measured on 2 ranks of each row or column of the grid, all at once" in text
    assert json.loads((tmp_path / "build" / "cluster.json").read_text())["settings"]["ranks"] == [2]
    again = configure(tools, tmp_path, "--grid=1x4", *common)
    assert again.returncode == 0, again.stderr
    assert "changed since the last tuning: grid; all is measured anew" in again.stdout
