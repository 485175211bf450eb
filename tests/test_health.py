"""Who is to blame when a job is lost: a host, the variant, or nobody; and ssh in all its moods."""

from pathlib import Path

import pytest

from search.cli.configured import read_cluster, shrink, write_cluster
from search.cli.settings import Settings
from search.cluster.backends.ssh import Ssh
from search.cluster.health import Health
from search.cluster.hosts import Cluster, Host
from search.cluster.inventory import (
    FACTS,
    MISSING,
    carriers,
    check,
    count_traffic,
    differences,
    fact,
    take_inventory,
)
from search.cluster.job import Job, JobLost
from search.cluster.site import Site
from search.cluster.topology import single_switch
from search.errors import EnvironmentFailure, HostsFailed
from search.measure.runner import TRIES, MeasuringRunner
from search.results.journal import Journal
from search.results.workload import Workload
from search.strategy.request import Failure, Round
from search.timeouts import USUAL, Timeouts
from search.toolchain import Toolchain

from .survival import LOCAL, build_directory
from .test_cluster import options
from .test_configure import gone
from .test_gates import FakeJob, Watcher, gates

HOSTS = ["n0", "n1.cluster", "n2"]
TOOLS = Toolchain("mpicc", "mpiexec", ())


def watch(*silent):
    """Hosts of which some do not answer, the first time, the second time..."""
    answers = list(silent)
    return Health(HOSTS, lambda: answers.pop(0) if answers else {}, 0.0)


def test_the_second_failure_of_a_host_is_one_too_many():
    mine = watch()
    mine.blame([JobLost("the job ended", "n0"), JobLost("no answer"), JobLost("it ended", "N1")])
    mine.blame([JobLost("the job ended", "elsewhere")] * 3)
    with pytest.raises(HostsFailed) as caught:
        mine.blame([JobLost("killed", "n1")])
    assert caught.value.hosts == ("n1.cluster",)
    assert str(caught.value).startswith("host n1.cluster failed twice: it ended; killed: mend it")
    assert "--allow-shrink" in str(caught.value)
    assert caught.value.exit_code == 2


def test_hosts_that_do_not_answer_are_given_a_while():
    watch({"n2": "no route"}, {}).check()
    mine = watch({"n2": "no route"}, {}, {"n2": "no answer within 15 s"})
    mine.check()
    with pytest.raises(HostsFailed, match="n2 failed twice: no route; no answer within 15 s"):
        mine.check()
    with pytest.raises(HostsFailed, match=r"host n0 failed twice \(and n2\)") as caught:
        watch(*[{"n0": "refused", "n2": "refused"}] * 2).check()
    assert caught.value.hosts == ("n0", "n2")


class Losing(FakeJob):
    """Loses visits to labels as often as it is told, on a host."""

    def __init__(self, times, host=""):
        super().__init__()
        self.times, self.host = times, host

    def ask(self, request, seconds=None):
        words = request.split()
        label = words[1] if len(words) > 1 else words[0]
        if self.times.get(label, 0) > 0:
            self.times[label] -= 1
            raise JobLost("the job ended", self.host)
        return super().ask(request, seconds)


def visited(tmp_path, catalogue, job, label="ring(sync=none)", looks=0):
    """What comes of a round with one variant, whom it was blamed on, and what is recorded."""
    blamed, outcomes = [], []
    journal = Journal(tmp_path / "j", "f")
    variant = catalogue.variant(label)
    runner = MeasuringRunner(
        catalogue.collective,
        job,
        lambda: job,
        journal,
        Watcher(),
        lambda *_: 1e-3,
        gates(),
        blame=blamed.extend,
    )

    def rounds():
        outcomes.append((yield Round(Workload(3, 8), (variant,))).outcomes[variant])

    runner.run(rounds())
    return outcomes[0], [loss.host for loss in blamed], journal.records


def test_a_variant_that_is_lost_every_time_is_to_blame(tmp_path, catalogue):
    job = Losing({"ring(sync=none)": 99}, "n1")
    outcome, blamed, (record,) = visited(tmp_path, catalogue, job)
    assert outcome == Failure("the job ended")
    assert record.failure == "the job ended"  # no host's name
    assert blamed == []
    assert 99 - job.times["ring(sync=none)"] == TRIES
    assert "verify native 8" in job.asked


def test_what_is_lost_only_at_times_is_a_hosts_fault(tmp_path, catalogue):
    job = Losing({"ring(sync=none)": TRIES - 1}, "n1")
    outcome, blamed, (record,) = visited(tmp_path, catalogue, job)
    assert outcome.seconds == 0.01
    assert blamed == ["n1"] * (TRIES - 1)
    assert record.sample


def test_a_job_that_is_lost_whatever_runs_accuses_no_variant(tmp_path, catalogue):
    for label in ("ring(sync=none)", "native"):
        with pytest.raises(EnvironmentFailure, match="own MPI_Alltoall fails here.*on host n1"):
            visited(tmp_path, catalogue, Losing({"ring(sync=none)": 99, "native": 99}, "n1"), label)
    assert Journal(tmp_path / "j", "f").records == []


def test_a_library_that_fails_is_tried_again_another_time(tmp_path, catalogue):
    class Wrong(FakeJob):
        def ask(self, request, seconds=None):
            answer = super().ask(request, seconds)
            return {"verdict": "wrong data"} if request.startswith("verify native") else answer

    with pytest.raises(EnvironmentFailure, match="own MPI_Alltoall fails here: wrong data"):
        visited(tmp_path, catalogue, Wrong(), "native")
    assert Journal(tmp_path / "j", "f").records == []


def test_a_job_that_is_lost_when_idle(tmp_path, catalogue):
    outcome, blamed, _ = visited(tmp_path, catalogue, Losing({"5": 1}, "n2"))
    assert outcome.seconds == 0.01
    assert blamed == ["n2"]
    (tmp_path / "j").unlink()
    with pytest.raises(
        EnvironmentFailure, match="idle job is lost again: the job ended on host n2"
    ):
        visited(tmp_path, catalogue, Losing({"5": 99}, "n2"))


WORDS = {
    "hydra": ("=   PID 28 RUNNING AT n1\\n=   EXIT CODE: 9", ""),
    "srun": ("", "srun: error: n1: task 3: Killed"),
    "slurm": ("", "srun: error: Node failure on n1"),
    "a cable": ("", "srun: error: n0: task 0: Killed\\nsrun: error: Node failure on n1"),
    "nobody": ("Welcome to n1!", "srun: warning: n1"),
}


@pytest.mark.parametrize("kind", WORDS)
def test_launchers_name_the_host_on_which_a_job_ended(tmp_path, kind):
    said, error = WORDS[kind]
    introduction = '{"library": "x", "forced": [], "hosts": ["n1"], "rankings": []}'
    script = f"echo 'atall: {introduction}'; read x; printf '{said}\\n'; printf '{error}\\n' >&2"
    (tmp_path / "log").write_text("srun: error: n0: task 1: Killed\n")  # of a job before
    job = Job(["sh", "-c", script], {}, tmp_path / "log")
    with pytest.raises(JobLost) as caught:
        job.ask("quiet 5", 20)
    assert caught.value.host == ("" if kind == "nobody" else "n1")
    job.kill()


def test_the_end_of_an_allocation_is_no_hosts_fault(tmp_path):
    introduction = '{"library": "x", "forced": [], "hosts": ["n1"], "rankings": []}'
    over = (
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-22T20:00:00 DUE TO TIME LIMIT"
    )
    script = f"echo 'atall: {introduction}'; read x; echo '{over} ***' >&2"
    job = Job(["sh", "-c", script], {}, tmp_path / "log")
    with pytest.raises(EnvironmentFailure, match="the Slurm allocation is over") as caught:
        job.ask("quiet 5", 20)
    assert not isinstance(caught.value, JobLost)
    job.close()


def test_what_a_job_said_last_is_quoted(tmp_path):
    with pytest.raises(
        JobLost, match="does not start: the job ended .'no such file: measure'.: see"
    ):
        Job(["sh", "-c", "echo 'no such file: measure' >&2; echo >&2"], {}, tmp_path / "log")
    (tmp_path / "hydra").write_text(
        "===\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   EXIT CODE: 139\n===\n"
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n"
        "This typically refers to a problem with your application.\n"
        "Please see the FAQ page for debugging suggestions\n"
        "[proxy:3@n4] main (proxy/pmip.c:123): demux engine error waiting for event\n"
    )
    with pytest.raises(JobLost, match="ended .'YOUR APPLICATION .* Segmentation fault"):
        Job(["cat", str(tmp_path / "hydra")], {}, tmp_path / "log")


def cluster_of(backend, *names, slots=1, **more):
    hosts = tuple(Host(name, slots) for name in names)
    return Cluster(backend, hosts, slots * len(names), single_switch(names), **more)


def test_a_smaller_cluster_asks_for_no_more_than_it_can_have(tmp_path):
    cluster = cluster_of("ssh", "n0", "n1", "n2", slots=2)
    failure = HostsFailed("n1 failed", ("n1",))
    settings = Settings((2, 4, 5, 6), (64,))
    smaller, others = shrink(cluster, settings, failure)
    assert smaller.host_of_rank() == ["n0", "n0", "n2", "n2"]
    assert others.ranks == (2, 4)
    write_cluster(tmp_path / "c", smaller, others)
    assert read_cluster(tmp_path / "c") == (smaller, others)
    called = Settings((2, 6), (64,), profile={2: (8,), 6: (64,)})
    assert shrink(cluster, called, failure)[1] == Settings((2,), (64,), profile={2: (8,)})
    for impossible in (
        (cluster_of("ssh", "n0", "n1"), settings),
        (cluster_of("ssh", "n0", "n1", "n2", grid=(1, 3)), settings),
        (cluster, Settings((6,), (64,), profile={6: (64,)})),
    ):
        with pytest.raises(HostsFailed):
            shrink(*impossible, failure)


SSH = {
    "refuses": ("echo 'Permission denied (publickey).' >&2; exit 255", "Permission denied"),
    "hangs": ("sleep 7654 & sleep 7654", "no answer within 1 s"),
    "hangs in a proxy": ("sleep 7654 & exit 0", None),
    "babbles": ("echo 'Welcome!'; echo 'to n1' >&2; exit 0", None),
    "babbles and fails": ("echo 'Welcome!' >&2; echo; echo 'no route' >&2; exit 1", "no route"),
    "is binary": ("printf '\\377\\376\\n' >&2; exit 1", "\ufffd"),
}


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    def make(script):
        (tmp_path / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "ssh").chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return make


@pytest.mark.parametrize("mood", SSH)
def test_ssh_in_all_its_moods(fake_ssh, mood):
    script, reason = SSH[mood]
    fake_ssh(script)
    timeouts = Timeouts(host=1.0 if mood == "hangs" else USUAL.host)
    ssh = Ssh(cluster_of("ssh", "n1", "n2"), TOOLS, Path(), print, timeouts)
    failures = ssh.ask("true")
    assert gone("sleep 7654")
    if reason is None:
        assert failures == {}
        return
    assert sorted(failures) == ["n1", "n2"]
    assert reason in failures["n1"]
    with pytest.raises(HostsFailed, match=r"host n1 .*1 more.*ssh n1 true") as caught:
        ssh.__enter__()
    assert caught.value.hosts == ("n1", "n2")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("backend", "starts"), [("local", 2), ("ssh", 1)])
def test_a_job_that_says_nothing_is_started_again_on_this_machine(
    fake_ssh, tmp_path, monkeypatch, backend, starts
):
    """Elsewhere a firewall keeps it from saying anything, and would again."""
    started = []

    def silent(self, program):
        started.append(program)
        raise JobLost("no answer", silent=True)

    fake_ssh("exit 0")
    monkeypatch.setattr(Site, "_launch", silent)
    with Site(cluster_of(backend, "n1", "n2"), TOOLS, tmp_path) as site, pytest.raises(JobLost):
        site.start_job(tmp_path / "measure")
    assert len(started) == starts


def test_ssh_that_leads_to_another_host(tools, every_body, fake_ssh, tmp_path):
    """And greets on both streams: nothing of that is taken for an answer."""
    skip = "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done; shift"
    fake_ssh(f'echo Welcome; echo Welcome >&2\n{skip}\nexec sh -c "$*"')
    place = build_directory(tmp_path / "build", tools)
    for name, text in every_body.items():
        (place / name).write_text(text)
    tools.compile_job(place / "alltoall.c", place / "measure")
    with (
        pytest.raises(EnvironmentFailure, match="not placed as asked"),
        Site(cluster_of("ssh", "alias1", "alias2"), tools, place) as site,
    ):
        site.start_job(place / "measure")
    assert gone(str(place))


def test_without_hosts_that_cannot_be_reached(tools, catalogue, tmp_path, monkeypatch):
    """With --allow-shrink a host that is off from the start is left out by name."""
    from rich.console import Console

    from search.cli.desk import Desk
    from search.cli.options import parser
    from search.cli.verbs import configure
    from search.cli.workplace import Workplace

    (tmp_path / "hosts").write_text("n0\nn1\nn2\n")
    monkeypatch.chdir(tmp_path)
    tried = []

    def tune(desk, site, job):
        tried.append([host.name for host in site.cluster.hosts])
        return "tuned"

    def off(self):
        if "n1" in self.cluster.ranks_on():
            raise HostsFailed("host n1 cannot be used", ("n1",))
        return self

    monkeypatch.setattr(configure, "tune", tune)
    monkeypatch.setattr(configure, "build_job", lambda *_: None)
    monkeypatch.setattr(configure.Site, "start_job", lambda *_: None)
    monkeypatch.setattr(configure, "probe_network", lambda *_: None)
    monkeypatch.setattr(Ssh, "__enter__", off)
    build_directory(tmp_path, tools)
    arguments = parser().parse_args(["configure", "--hostfile=hosts", *LOCAL[1:]])
    desk = Desk(Console(), Workplace(tmp_path), catalogue, 0.0)
    configure.configure_cluster(desk, arguments)
    with pytest.raises(HostsFailed, match="n1"):
        configure.measure(desk, False)
    cluster, tuned = configure.measure(desk, True)
    assert (tried, tuned, cluster.ranks) == ([["n0", "n2"]], "tuned", 2)
    assert options("--allow-shrink").allow_shrink


def has(program="1:9", library="7:4", **facts):
    at = "/usr/lib/libmpi.so"
    return {"program": program, "library": library, "at": at, "kernel": "6.1", **facts}


def test_what_hosts_have_is_looked_at_before_the_first_job():
    program, here = Path("/there/build/measure"), has()
    check({"n0": has(), "n1": {}}, program, here)  # who does not say is not accused
    for found, why in (
        ({"program": MISSING, "directory": MISSING}, "there is no directory /there/build:"),
        ({"program": MISSING}, "there is no program /there/build/measure:"),
        (has("2:9"), "/there/build/measure is another program than here:"),
    ):
        with pytest.raises(HostsFailed, match=f"host n1: {why} all hosts need") as caught:
            check({"n0": has(), "n1": found, "n2": found}, program, here)
        assert caught.value.hosts == ("n1", "n2")
    with pytest.raises(EnvironmentFailure, match="host n2 has another MPI library .* than n0"):
        check({"n0": has(), "n1": has(library=""), "n2": has(library="8:4")}, program, here)


def test_hosts_that_differ_are_named():
    facts = dict.fromkeys(FACTS, "1")
    alike = dict.fromkeys(("n0", "n1", "n2"), facts)
    assert differences(alike) == []
    assert fact(alike, "kernel") == "1"
    other = {**alike, "n1": {**facts, "tcp_sack": "0"}}
    assert differences(other) == ["hosts differ in tcp_sack: 0 on n1, 1 on 2 hosts"]
    assert fact(other, "tcp_sack") == ["1", "0", "1"]


def test_an_inventory_is_taken_over_ssh(tmp_path, fake_ssh):
    """The script, as a shell runs it."""
    fake_ssh('shift 6; sh -c "$1"')
    program = tmp_path / "build" / "measure"
    program.parent.mkdir()
    ssh = Ssh(cluster_of("ssh", "n1", "n2"), TOOLS, tmp_path, print)
    program.symlink_to("/bin/sh")
    found = take_inventory(ssh.query, program)
    assert list(found) == ["n1", "n2"]
    assert all(found["n1"][key] for key in FACTS)
    usual = Path("/proc/sys/net/ipv4/tcp_rmem").read_text().split()
    assert found["n1"]["tcp_rmem"].split() == usual


def test_the_interface_that_carries_messages_is_named(fake_ssh):
    fake_ssh('shift 6; sh -c "$1"')
    ssh = Ssh(cluster_of("ssh", "n1"), TOOLS, Path(), print)
    (mine,) = count_traffic(ssh.query).values()
    there = {path.name for path in Path("/sys/class/net").iterdir()} - {"lo"}
    assert set(mine) == there
    idle = {host: {"eth0": 5, "mgmt0": 7} for host in ("n1", "n2", "n3")}
    busy = {host: {**mine, "eth0": 10**6} for host, mine in idle.items()}
    assert carriers(idle, idle) == ""
    assert carriers(idle, busy) == "messages go over eth0"
    busy["n2"] = {"eth0": 5, "mgmt0": 10**6}
    said = "messages go over mgmt0 on n2, messages go over eth0 on 2 hosts"
    assert carriers(idle, busy) == said
