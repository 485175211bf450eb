"""The whole way, as a user goes it: configure in a directory of its own, on a tiny cluster."""

import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import pytest

from search.analysis.bench import geometric_mean
from search.cluster.emulation import Emulation
from search.cluster.hosts import Cluster, Host
from search.cluster.topology_file import parse_conf
from search.results.journal import Journal
from search.results.record import Record
from search.results.samples import Sample
from search.results.workload import Workload

from .conftest import ROOT
from .survival import MARK, ends, left

TINY = """\
SwitchName=s0 Nodes=tiny[0-1] Switches=s1 LinkSpeed=20
SwitchName=s1 Nodes=tiny[2-3] LinkSpeed=20
"""
SEARCH = [
    "--emulate=tiny.conf",
    "--effort=quick",
    "--sizes=1,8K",
    "--only=ring,bruck",
    "--np=3,4",
    "--accept-noise",  # of other tests
]


def processes(word):
    """The command lines of other processes that contain a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.parent.name == str(os.getpid()):
            continue
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


def gone(word, seconds=60):
    """Whether nothing with that word runs any more, within so many seconds."""
    end = time.monotonic() + seconds
    while processes(word) and time.monotonic() < end:
        time.sleep(0.2)
    return processes(word) == []


@pytest.fixture(scope="module")
def place(tools, emulation, tmp_path_factory):
    """A build directory outside the source tree, with a topology file."""
    folder = tmp_path_factory.mktemp("build dir").resolve()
    (folder / "tiny.conf").write_text(TINY)
    return folder


def command(tools, *options):
    return [
        str(ROOT / "configure"),
        f"PYTHON={sys.executable}",
        f"MPICC={tools.mpicc}",
        f"MPIEXEC={tools.mpiexec}",
        *options,
    ]


def configure(tools, place, *options, env=None):
    return subprocess.run(
        command(tools, *options),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1200,
        stdin=subprocess.DEVNULL,
        check=False,
        env=env,
    )


def search(place, *words):
    return subprocess.run(
        [sys.executable, "-m", "search", *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def tuned(tools, place):
    """Interrupted in the middle, then finished: what both runs printed."""
    first = subprocess.Popen(
        command(tools, *SEARCH),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = ""
    while "block 1 B" not in said:
        line = first.stdout.readline()
        assert line, said
        said += line
    end = time.monotonic() + 60
    while not (place / "build" / "measurements.jsonl").exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    time.sleep(0.5)
    first.send_signal(signal.SIGTERM)  # a background shell ignores SIGINT
    said += first.communicate(timeout=120)[0]
    assert first.returncode == 4, said
    assert "run the same command again" in said
    assert gone(str(place))
    assert not (place / "generated" / "alltoall.c").exists()
    before = dilation(place)
    second = configure(tools, place, *SEARCH)
    assert second.returncode == 0, second.stdout + second.stderr
    return said, second.stdout, before


def dilation(place):
    return json.loads((place / "build" / "cluster.json").read_text())["cluster"]["dilation"]


def test_interrupted_tuning_goes_on(tuned, place):
    """From where it was, unless this machine is busier now, and carries the cluster slower."""
    is_slower = dilation(place) > tuned[2]
    expected = "this machine carries the cluster at" if is_slower else "records are there already"
    assert expected in tuned[1]
    assert "null tests" in tuned[1]
    assert "generated/alltoall.c is ready" in tuned[1]


def test_what_is_written(tuned, place):
    text = (place / "generated" / "alltoall.c").read_text()
    assert "4 ranks on 4 host(s)" in text
    for private in ("tiny", "10.77.", str(Path.home()), os.uname().nodename + " ", str(place)):
        assert private not in text
    machine = json.loads((place / "build" / "machine.json").read_text())
    assert 0 < machine["null_tests"]["flow"] <= 1
    assert machine["dilation"] in (1, 2, 4, 8, 16)
    assert gone(str(place))


def test_decide_and_emit_give_the_same_bytes_again(tuned, place):
    files = [place / "generated" / name for name in ("decision.toml", "alltoall.c", "alltoall.h")]
    before = [path.read_bytes() for path in files]
    for stage in ("decide", "emit"):
        assert search(place, stage).returncode == 0
    assert [path.read_bytes() for path in files] == before


def test_all_is_there_already_the_third_time(tuned, tools, place):
    before = (place / "build" / "measurements.jsonl").read_bytes()
    done = search(place, "tune")
    assert done.returncode == 0, done.stderr
    assert "tune: 0 visits" in done.stdout
    assert (place / "build" / "measurements.jsonl").read_bytes() == before


def test_the_bench_compares_with_the_library(tuned, place):
    done = search(place, "bench")
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((place / "build" / "bench.json").read_text())
    assert content["congestion control"] == "cubic"
    assert content["port buffer"] == 32768
    rows = content["rows"]
    assert [row["block"] for row in rows] == [1, 90, 8192]
    for row in rows:
        assert row["ratio"] == pytest.approx(geometric_mean(row["launches"]))
        assert row["limit_s"] > 0
        assert row["variant"] in done.stdout


@pytest.mark.full
def test_the_library_can_be_forced_to_compete(tuned, place):
    done = search(place, "bench", "--competitors", "--sizes", "512", "--launches", "2", "--cold")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((place / "build" / "bench.json").read_text())["rows"]
    assert len(row["launches"]) == 2
    assert min(row["cold_s"]) > 0
    assert "launch 2 of 2" in done.stdout
    assert {"library:pairwise", "library:brucks", "library:scattered:4"} <= row[
        "competitors"
    ].keys()
    assert {"preset mpich", "preset lam"} <= row["competitors"].keys()
    assert row["ratio"] > 0
    assert "best other" in done.stdout


def test_every_number_of_ranks_has_its_table(tuned, place):
    text = (place / "generated" / "alltoall.c").read_text()
    assert "Measured on 4 ranks" in text
    assert "Measured on 3 ranks" in text
    decision = (place / "generated" / "decision.toml").read_text()
    assert decision.index("ranks = 4\nhosts = 4\neach = 1\n") < decision.index("ranks = 3")
    assert "[table.row.evidence]" in decision


def test_the_report_is_one_file_with_all_in_it(tuned, place):
    done = search(place, "report")
    assert done.returncode == 0, done.stderr
    text = (place / "build" / "report.html").read_text()
    assert text.count("<svg") >= 4
    for word in ("What was chosen", "4 ranks", "3 ranks", "How long it took", "null tests"):
        assert word in text
    assert "<script" not in text
    for reference in ("src=", "<link", "@import"):
        assert reference not in text
    again = (place / "build" / "report.html").read_bytes()
    assert search(place, "report").returncode == 0
    assert (place / "build" / "report.html").read_bytes() == again


def test_strategies_are_compared_on_exhaustive_journals_only(tuned, place):
    partial = Journal(place / "partial.jsonl", "some")
    partial.append(Record(Workload(4, 1), "native", 0, Sample((1e-3,))))
    partial.append(Record(Workload(4, 8), "ring(sync=none)", 0, Sample((1e-3,))))
    for journal, word in (
        ("partial.jsonl", "--strategy=exhaustive"),
        ("config.mk", "config.mk is not a journal"),
    ):
        done = search(place, "compare-strategies", journal)
        assert done.returncode == 1
        assert word in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert search(place, "bench", "journal").returncode == 1


@pytest.mark.full
def test_a_time_limit_is_kept_and_what_is_open_is_said(tools, emulation, tmp_path):
    (tmp_path / "tiny.conf").write_text(TINY)
    done = configure(
        tools, tmp_path, "--emulate=tiny.conf", "--sizes=1,64,8K,16M", "--time-limit=60",
        "--accept-noise",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the time limit came first" in done.stdout
    assert "uncertain: nothing is measured beyond" in done.stdout
    text = (tmp_path / "generated" / "alltoall.c").read_text()
    assert "not measured: the search ended before" in text
    done = configure(
        tools, tmp_path, "--emulate=tiny.conf", "--time-limit=1", "--fresh", "--accept-noise"
    )
    assert done.returncode == 4
    assert "alltoall.c is as it was" in done.stderr and "--time-limit=" in done.stderr
    assert (tmp_path / "generated" / "alltoall.c").read_text() == text
    (tmp_path / "new").mkdir()
    words = ("--emulate=../tiny.conf", "--time-limit=1", "--accept-noise")
    done = configure(tools, tmp_path / "new", *words)
    assert done.returncode == 4
    assert "alltoall.c is untuned" in done.stderr
    assert "untuned" in (tmp_path / "new" / "generated" / "alltoall.c").read_text()[:600]


@pytest.mark.full
def test_hosts_with_two_ranks_try_leaders(tools, emulation, tmp_path):
    (tmp_path / "tiny.conf").write_text(TINY)
    done = configure(
        tools, tmp_path, "--emulate=tiny.conf", "--emulate-slots=2", "--sizes=64",
        "--only=ring", "--strategy=three-steps", "--accept-noise",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 ranks on 4 emulated hosts" in done.stdout
    journal = (tmp_path / "build" / "measurements.jsonl").read_text()
    assert '"label": "ring(sync=none,leaders=1)"' in journal
    assert "failure" not in journal
    path = tmp_path / "generated" / "decision.toml"
    path.write_text(
        'schema = 2\n[[table]]\nranks = 8\nrow = [{variant = "ring(sync=none,leaders=1)"}]\n'
    )
    assert search(tmp_path, "emit").returncode == 0
    text = (tmp_path / "generated" / "alltoall.c").read_text()
    row = '{ SIZE_MAX, ATALL_RING_NONE, { .leaders = 1 }, "ring(sync=none,leaders=1)" }'
    assert row in text
    done = search(tmp_path, "bench", "--sizes", "64", "--launches", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ring(sync=none,leaders=1)" in done.stdout


def test_presets_are_emitted(tools, tmp_path):
    done = configure(tools, tmp_path, "--preset=lam")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "generated" / "alltoall.c").read_text()
    assert "ATALL_SIMPLE_INDEX" in text
    assert "ATALL_BRUCK" not in text
    assert "Not tuned" in text
    assert configure(tools, tmp_path, "--preset=nobody").returncode == 1


def test_a_timeline_is_drawn(tuned, place):
    for label, parts in (
        ("phased(sync=receiver,segment=4096,depth=1)", 4),
        ("ring(sync=light)", 1),
    ):
        done = search(place, "timeline", "--block", "16K", "--variant", label)
        assert done.returncode == 0, done.stderr
        assert f"{12 * parts} messages" in " ".join(done.stdout.split())
        recorded = json.loads((place / "build" / "timeline.json").read_text())
        assert sum(m["bytes"] for m in recorded["messages"]) == 12 * 16384
        assert all(m["posted"] < m["arrived"] for m in recorded["messages"])
        assert "<svg" in (place / "build" / "timeline.svg").read_text()
    done = search(place, "timeline", "--variant", "native")
    assert done.returncode == 1
    assert "VARIANT=" in done.stderr


def test_a_row_changed_by_hand_is_emitted(tuned, place):
    path = place / "generated" / "decision.toml"
    kept = path.read_text()
    path.write_text('schema = 2\n[[table]]\nranks = 4\nrow = [{variant = "simple(order=index)"}]\n')
    assert search(place, "emit").returncode == 0
    assert "ATALL_SIMPLE_INDEX" in (place / "generated" / "alltoall.c").read_text()
    path.write_text("schema = 2\n[[table]]\nranks = 4\nrow = []\n")
    old = (place / "generated" / "alltoall.c").read_bytes()
    broken = search(place, "emit")
    assert broken.returncode == 1
    assert "the last row" in broken.stderr
    assert (place / "generated" / "alltoall.c").read_bytes() == old
    path.write_text(kept)
    assert search(place, "emit").returncode == 0


def test_the_example_runs_with_the_file_copied_elsewhere(tuned, tools, place, patient, tmp_path):
    for name in ("alltoall.c", "alltoall.h"):
        (tmp_path / name).write_bytes((place / "generated" / name).read_bytes())
    (tmp_path / "transpose.c").write_bytes((ROOT / "doc/examples/transpose.c").read_bytes())
    tools.run(
        [
            tools.mpicc,
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
            str(tmp_path),
            str(tmp_path / "transpose.c"),
            str(tmp_path / "alltoall.c"),
            "-o",
            str(tmp_path / "transpose"),
        ],
        "compiling the example",
    )
    for ranks in (1, 3, 4, 6):
        done = subprocess.run(
            [
                tools.mpiexec,
                *patient,
                "-genv",
                "ATALL_VERBOSE",
                "1",
                "-n",
                str(ranks),
                str(tmp_path / "transpose"),
            ],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert "transposed and verified" in done.stdout, done.stdout + done.stderr
        where = f"{ranks} ranks on 1 host(s)"  # here, not where it was tuned
        assert done.stderr.count(f"{where}: far from all that was tuned") == 1
    forced = subprocess.run(
        [
            tools.mpiexec,
            *patient,
            "-genv",
            "ATALL_FORCE",
            "nonsense(x=1)",
            "-n",
            "2",
            str(tmp_path / "transpose"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "ATALL_FORCE=nonsense(x=1) ignored" in forced.stderr
    assert "transposed and verified" in forced.stdout


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--emulate=none.conf"], 1, "cannot read topology file none.conf"),
        (["--emulate=bad.conf"], 1, "bad.conf:2"),
        (["--emulate=slow.conf"], 1, "LinkSpeed="),
        (["--emulate=tiny.conf", "--np=5"], 1, "4 slots"),
        (["--emulate=tiny.conf", "--profile=none"], 1, "cannot read profile none"),
        (["--np=0"], 1, "--np"),
        (["--grid=2"], 1, "'2' is not rows and columns, such as 4x8"),
        (["--grid=2x2", "--np=4"], 1, "leave out --np"),
        (["--sizes=1,x"], 1, "'x' is not a size"),
        (["--sizes=2G"], 1, "'2G' is not a size"),
        (["--time-limit=soon"], 1, "--time-limit"),
        (["--np=4,x"], 1, "--np"),
        (["--strategy=guess"], 1, "--strategy"),
        (["--timing=often"], 1, "--timing"),
        (["--only=rink"], 1, "no algorithm 'rink'"),
        (["--order=random"], 1, "--order"),
        (["--placement=random"], 1, "--placement=random"),
        (["--effort=most"], 1, "--effort"),
        (["--emulate-buffer=10", "--emulate=tiny.conf"], 1, "--emulate-buffer"),
        (["--no-such-option"], 1, "--no-such-option"),
        (["nonsense"], 1, "unknown argument"),
        (["--hostfile=none"], 1, "cannot read host file none"),
        (["--hostfile=hosts"], 1, "hosts:1"),
        (["--hostfile=remote"], 2, "host unknown.invalid cannot be used"),
        (["--hostfile=remote", "--topology=tiny.conf"], 1, "unknown.invalid is missing"),
        (["--launcher=srun"], 1, "no Slurm job"),
        (["MPICC=/nowhere/mpicc"], 2, "MPICC=/nowhere/mpicc"),
        (["MPIEXEC=/bin/false"], 2, "the MPI job does not start"),
        (["PYTHON=/bin/false"], 2, "PYTHON=/bin/false"),
        (["CFLAGS=-no-such-flag"], 2, "compiling the measuring job failed"),
    ],
)
def test_a_mistake_gets_one_clear_line(tools, tmp_path, options, code, word):
    (tmp_path / "tiny.conf").write_text(TINY)
    (tmp_path / "bad.conf").write_text("SwitchName=s0 Nodes=a\nSwitch=s1\n")
    (tmp_path / "slow.conf").write_text("SwitchName=s0 Nodes=a,b\n")
    (tmp_path / "hosts").write_text("-oProxyCommand=x\n")
    (tmp_path / "remote").write_text("unknown.invalid:2\n")
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "alltoall.c").write_text("old")
    done = configure(tools, tmp_path, *options)
    assert done.returncode == code, done.stdout + done.stderr
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert (tmp_path / "generated" / "alltoall.c").read_text() == "old"


def test_help_documents_every_option(tools, tmp_path):
    from search.cli.options import known_verbs

    def options_of(verb):
        parser = ArgumentParser(add_help=False)
        known_verbs()[verb].add_options(parser)
        return [option for action in parser._actions for option in action.option_strings]

    text = configure(tools, tmp_path, "--help").stdout
    readme = (ROOT / "README.md").read_text()
    for option in options_of("configure"):
        assert option in text, option
    for option in {*options_of("bench"), *options_of("timeline"), *options_of("install")}:
        assert f"{option[2:].upper()}=" in readme or option in text, option
    assert configure(tools, tmp_path, "--version").stdout.startswith("atall ")


def test_unknown_features_only_warn(tools, tmp_path):
    done = configure(tools, tmp_path, "--enable-magic", "--generic")
    assert done.returncode == 0, done.stderr
    assert "--enable-magic" in done.stderr
    assert "untuned" in done.stdout
    assert (tmp_path / "generated" / "alltoall.c").exists()


def test_shellcheck_finds_nothing():
    try:
        done = subprocess.run(
            ["shellcheck", str(ROOT / "configure"), str(ROOT / ".ci/run")],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("no shellcheck")
    assert done.returncode == 0, done.stdout


def emulated(text):
    tree = parse_conf(text, "here")
    return Cluster(
        "emulated", tuple(Host(h, 1) for h in tree.hosts), len(tree.hosts), tree, buffer=32768
    )


def test_hosts_have_their_names_and_their_wires(emulation):
    with Emulation(emulated(TINY)) as there:
        for host in ("tiny0", "tiny3"):
            said = subprocess.run(
                there.on_host(host, ["hostname"]), capture_output=True, text=True, check=True
            ).stdout
            assert said.strip() == host
        queue = subprocess.run(
            there.on_host("tiny0", ["tc", "-d", "qdisc", "show", "dev", "e0"]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "rate 20Mbit" in queue
        assert "overhead 24" in queue
        route = subprocess.run(
            there.on_host("tiny0", ["ip", "route"]), capture_output=True, text=True, check=True
        ).stdout
        assert "congctl cubic" in route
        ports = subprocess.run(
            there.inside(["tc", "qdisc"]), capture_output=True, text=True, check=True
        ).stdout
        assert ports.count("tbf") == 4 + 2  # a port for each host, and both ends of the trunk


def test_time_outs_dilate_with_the_links_whenever_they_do(emulation):
    """As an emulation is made, and in one that is there: both ends of each cable."""
    commands = (["tc", "qdisc", "show", "dev", "e0"], ["ip", "route"])
    with Emulation(emulated(TINY).dilated(4)) as there:
        for dilation, rate, timeout in ((4, "5Mbit", "800ms"), (1, "20Mbit", "200ms")):
            there.dilate(dilation)
            asked = [there.on_host("tiny3", words) for words in commands]
            queue, route, ports = (
                subprocess.run(words, capture_output=True, text=True, check=True).stdout
                for words in (*asked, there.inside(["tc", "qdisc"]))
            )
            assert f"rate {rate}" in queue
            assert "rto_min" in route and timeout in route and "congctl cubic" in route
            assert ports.count(f"rate {rate}") == 4 + 2


def test_nothing_survives_the_driver(emulation, tmp_path):
    mark = {**os.environ, MARK: str(tmp_path)}
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from tests.test_configure import *\n"
        "there = Emulation(emulated(TINY)); there.__enter__()\n"
        "import subprocess; subprocess.Popen(there.on_host('tiny1', ['sleep', '98765']))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", script, str(ROOT)], stdout=subprocess.PIPE, text=True, env=mark
    )
    assert driver.stdout.readline() == "up\n"
    driver.kill()
    driver.wait()
    assert ends(tmp_path), left(tmp_path)


def test_config_status_runs_configure_again(tools, tmp_path):
    assert configure(tools, tmp_path, "--generic", "CFLAGS=-g -DQUOTED='x y'").returncode == 0
    before = (tmp_path / "config.mk").read_text()
    assert "CFLAGS = -g -DQUOTED='x y'" in before
    (tmp_path / "config.mk").unlink()
    done = subprocess.run(
        ["./config.status", "--recheck"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "config.mk").read_text() == before
