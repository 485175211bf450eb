"""Noise is noticed and named: the rules, and a real disturbance of an emulated cluster."""

import subprocess
import sys
import time

import pytest

from search.cluster.backends import BACKENDS
from search.errors import TooNoisy, summarised
from search.measure.gates import Gates
from search.measure.runner import MeasuringRunner
from search.measure.visits import OutOfTime
from search.results.journal import Journal
from search.results.record import Disturbance, Record
from search.results.samples import Sample
from search.results.workload import Team, Workload
from search.strategy.request import Restart, Round
from search.timeouts import USUAL, Timeouts

HOSTS = ["n0", "n0", "n1"]
ALL, HERE, THERE = Team(3), Workload(3, 8), Workload(3, 16)


def hosts_of(team):
    return HOSTS[: team.ranks]


def gates(backend="ssh"):
    return Gates(hosts_of, {"n0": 100.0, "n1": None}, BACKENDS[backend].watched)


def quiet(**changes):
    """What the job says; the second rank shares the first one's host and says nothing."""
    seen = {"bytes": 0, "tasks": 0, "spare": 1, "carrier": 2, "work": 1e-4}
    seen |= {"ticks": 100, "stolen": 5, "woke": 1e-4}
    return {
        key: [changes.get(f"{key}0", value), -1, changes.get(f"{key}1", value)]
        for key, value in seen.items()
    }


def test_a_quiet_cluster_has_no_troubles():
    watch = gates()
    assert [watch.look(quiet(), ALL) for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize(
    ("change", "host", "word"),
    [
        ({"bytes0": 0.03 * 100e6 / 8}, "n0", "3 Mbit/s of foreign traffic"),
        ({"bytes1": 0.03 * 1000e6 / 8}, "n1", "30 Mbit/s"),
        ({"tasks1": 3}, "n1", "2 task(s) too many"),
        ({"work0": 1.5e-4}, "n0", "1.5 x slower"),
        ({"carrier1": 4}, "n1", "network link"),
    ],
)
def test_troubles_are_named(change, host, word):
    watch = gates()
    watch.look(quiet(), ALL)
    (trouble,) = watch.look(quiet(**change), ALL)
    assert f"host {host}" in trouble
    assert word in trouble


def test_what_is_below_the_bounds_is_no_trouble():
    watch = gates()
    watch.look(quiet(), ALL)
    small = quiet(bytes0=0.01 * 100e6 / 8, bytes1=0.01 * 1000e6 / 8, tasks1=1, work0=1.2e-4)
    assert watch.look(small, ALL) == []


def test_late_acknowledgements_on_a_slow_link_are_our_own():
    watch = Gates(hosts_of, {"n0": 5.0, "n1": 5.0}, BACKENDS["ssh"].watched)
    assert watch.look(quiet(bytes0=0.1 * 5e6 / 8), ALL) == []
    (trouble,) = watch.look(quiet(bytes0=0.3 * 5e6 / 8), ALL)
    assert "1.5 Mbit/s of foreign traffic" in trouble
    assert gates("local").look(quiet(tasks1=9, bytes0=1e9), ALL) == []


def test_who_shares_the_processors_of_an_emulated_cluster_is_no_trouble():
    assert gates("emulated").look(quiet(tasks0=9, tasks1=9, work0=1.0, work1=1.0), ALL) == []


def test_disturbance_is_that_of_the_worst_host_since_the_last_look():
    watch = gates()
    assert watch.disturbance(quiet(woke1=2e-3), ALL) == Disturbance(
        0.0, 2e-3
    )  # nothing to compare with
    later = quiet(ticks0=200, stolen0=10, ticks1=300, stolen1=65)
    assert watch.disturbance(later, ALL) == Disturbance(0.3, 1e-4)
    assert watch.disturbance(later, ALL) == Disturbance(0.0, 1e-4)


def test_a_stall_is_as_long_as_time_is_dilated():
    stalled = Sample((1.6,), ((0, 4),), 3, spent=1.7, timeout=0.8)
    assert gates().stall(HERE, "native", stalled, 0.01) is None


def test_a_variant_that_stands_still_for_the_third_time_always_does():
    watch = gates()
    stalled = Sample((1.6,), ((0, 4), (2, 1)), 3, spent=1.7)
    for _ in range(2):
        told = watch.stall(HERE, "ring(sync=light)", stalled, 0.01)
        assert "ring(sync=light) stalled for 1.6 s with retransmissions on n0, n1" in told
    assert watch.stall(HERE, "ring(sync=light)", stalled, 0.01) is None
    usual = Sample((0.25,), ((0, 4),), 3, spent=0.3)
    assert watch.stall(THERE, "ring(sync=light)", usual, 0.01) is None
    assert watch.stall(THERE, "native", Sample((1.6,), spent=1.7), 0.01) is None  # noise
    assert watch.stall(THERE, "native", Sample((1.0,), spent=12.0), 1.0) is None


def test_long_calls_show_an_outage_too_unless_it_is_short_beside_them():
    outage = Sample((2.0,), ((0, 38), (1, 47)), 23, spent=3.2)
    assert "stalled for 1.6 s" in gates().stall(HERE, "native", outage, 0.43)
    assert gates().stall(HERE, "native", outage, 1.01) is None
    longer = Sample((6.0,), ((0, 38), (1, 47)), 23, spent=6.0)
    assert gates().stall(HERE, "native", longer, 4.4) is None


def test_an_outage_before_the_timing_is_seen_too():
    told = gates().stall(HERE, "native", Sample((0.05,), spent=3.25), 0.05)
    assert "native stalled for 2.6 s" in told


def test_several_troubles_are_summarised():
    assert summarised(["a"]) == "a"
    assert summarised(["a", "b", "c"]) == "a (and 2 more)"


class FakeJob:
    """A job whose answers are made up; ``seen`` are what successive looks find."""

    def __init__(self, seen=(), seconds=0.01):
        self.seen, self.seconds, self.asked = list(seen), seconds, []

    def choose_team(self, team):
        self.asked.append(f"ranks {team.ranks}")

    def ask(self, request, seconds=None):
        self.asked.append(request)
        verb = request.split()[0]
        if verb == "verify":
            return {"verdict": "ok"}
        if verb == "clocks":
            return {"skew": 1e-5}
        if verb == "quiet":
            return self.seen.pop(0) if self.seen else quiet()
        return {"seconds": [self.seconds], "resent": [], "timeouts": 0}

    def close(self):
        pass

    kill = close


class Watcher:
    def __init__(self):
        self.said = []

    def round(self, *_):
        pass

    def say(self, text):
        self.said.append(text)


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


ALWAYS, NEVER = Timeouts(look=0.0, quiet=0.05), Timeouts(look=1e9)
"""When it is looked whether anybody else is at work."""


def run_rounds(tmp_path, job, variant, rounds, **options):
    """The numbers of the rounds that a strategy gets, the journal, and what was said."""
    journal, watcher, answers = Journal(tmp_path / "j", "f"), Watcher(), []

    def search():
        for _ in range(rounds):
            answers.append((yield Round(Workload(3, 8), (variant,))))

    runner = MeasuringRunner(
        variant.body.algorithm.collective,
        job,
        lambda: job,
        journal,
        watcher,
        lambda workload: 1e-3,
        gates(),
        **options,
    )
    runner.run(search())
    return answers, journal, watcher.said, runner


def test_disturbed_rounds_are_void_and_repeated(catalogue, tmp_path):
    hog = quiet(tasks1=3)
    job = FakeJob([quiet(), quiet(), hog, quiet()])
    answers, journal, said, _ = run_rounds(
        tmp_path, job, catalogue.variant("native"), 3, timeouts=ALWAYS
    )
    assert [answer.number for answer in answers] == [0, 2, 3]
    assert answers[1].void == {1}
    (void,) = [record for record in journal.records if record.void]
    assert void == Record(
        Workload(3, 8), void="host n1: 2 task(s) too many want its processors", rounds=(1,)
    )
    assert "1 round at 8 B void and repeated: host n1" in said[0]


def test_the_cluster_is_made_ready_for_each_block(catalogue, tmp_path):
    native, paced = catalogue.variant("native"), []

    def pace(block):
        paced.append(block)
        return 0.8

    _, journal, _, _ = run_rounds(tmp_path, FakeJob([quiet()]), native, 2, pace=pace)
    assert set(paced) == {8}
    assert {record.sample.timeout for record in journal.records if record.sample} == {0.8}


def test_rounds_since_the_last_look_are_void_too(catalogue, tmp_path, monkeypatch):
    """Nobody looks before the third round."""
    clock = Clock()
    monkeypatch.setattr("search.measure.runner.time", clock)
    native, hog = catalogue.variant("native"), quiet(tasks1=3)

    class Job(FakeJob):
        def ask(self, request, seconds=None):
            if sum(asked.startswith("time") for asked in self.asked) >= 3:
                clock.now += USUAL.look + 1.0
            return super().ask(request, seconds)

    answers, *_ = run_rounds(tmp_path, Job([quiet(), hog]), native, 3)
    assert answers[-1].void >= {0, 1}
    assert answers[-1].number > max(answers[-1].void)


def test_a_disturbance_is_seen_within_a_long_round(catalogue, tmp_path):
    """It may be over before the round is."""
    variants = tuple(catalogue.variant(x) for x in ("native", "ring(sync=none)", "bruck(radix=2)"))
    journal, answers = Journal(tmp_path / "j", "f"), []

    def search():
        answers.append((yield Round(Workload(3, 8), variants)))

    job = FakeJob([quiet(), quiet(), quiet(tasks1=3)])
    runner = MeasuringRunner(
        catalogue.collective,
        job,
        lambda: job,
        journal,
        Watcher(),
        lambda workload: 1e-3,
        gates(),
        timeouts=ALWAYS,
    )
    runner.run(search())
    assert answers[0].void == {0}
    assert answers[0].number == 1
    assert set(answers[0].outcomes) == set(variants)
    assert len([record for record in journal.records if record.sample]) == 2 + 3


def test_a_search_that_started_anew_finds_all_of_it_in_the_journal(catalogue, tmp_path):
    native = catalogue.variant("native")

    def search():
        for reason in ("times drifted", "and again"):
            for _ in range(2):
                yield Round(Workload(3, 8), (native,))
            void = (yield Restart(Workload(3, 8), reason)).void
        assert void == {0, 1, 2, 3}
        yield Round(Workload(3, 8), (native,))

    kept = []
    for _ in range(2):
        journal = Journal(tmp_path / "j", "f")
        runner = MeasuringRunner(
            catalogue.collective,
            FakeJob(),
            FakeJob,
            journal,
            Watcher(),
            lambda workload: 1e-3,
            gates(),
        )
        runner.run(search())
        kept.append((tmp_path / "j").read_bytes())
    assert kept[0] == kept[1]
    assert runner.fresh_visits == 0


class Stalling(FakeJob):
    """Stands still in some of its visits, by number; each but the first is one request to time."""

    def __init__(self, when):
        super().__init__()
        self.when, self.visits = when, -1

    def ask(self, request, seconds=None):
        answer = super().ask(request, seconds)
        if request.startswith("time"):
            self.visits += 1
            if self.visits in self.when:
                return {"seconds": [1.5], "resent": [[1, 9]], "timeouts": 4}
        return answer


def test_an_outage_makes_only_its_own_round_void(catalogue, tmp_path):
    answers, _, said, _ = run_rounds(
        tmp_path, Stalling([3]), catalogue.variant("native"), 3, timeouts=NEVER
    )
    assert [answer.number for answer in answers] == [0, 1, 3]
    assert answers[-1].void == {2}
    assert "stalled" in said[0]


def test_what_stands_still_when_visited_again_was_no_outage(catalogue, tmp_path):
    native = catalogue.variant("native")
    answers, journal, said, _ = run_rounds(tmp_path, Stalling([3, 4, 5]), native, 4, timeouts=NEVER)
    assert [answer.number for answer in answers] == [0, 1, 2, 3]
    assert [answer.outcomes[native].seconds for answer in answers] == [0.01, 0.01, 1.5, 1.5]
    assert not said
    assert len(journal.records) == 4  # the visit that only looked is not kept


def test_a_cluster_that_stays_noisy_is_refused(catalogue, tmp_path):
    native = catalogue.variant("native")
    with pytest.raises(TooNoisy, match="host n1.*--accept-noise"):
        run_rounds(tmp_path, FakeJob([quiet(tasks1=3)] * 999999), native, 2, timeouts=ALWAYS)
    answers, _, said, runner = run_rounds(
        tmp_path, FakeJob([quiet(tasks1=3)] * 999), native, 2, accept_noise=True, timeouts=ALWAYS
    )
    assert len(answers) == 2
    assert runner.noise
    assert "accepted" in said[0]


def test_no_visit_begins_that_would_end_behind_the_deadline(catalogue, tmp_path, monkeypatch):
    clock = Clock()
    for room in ("runner", "visits"):
        monkeypatch.setattr(f"search.measure.{room}.time", clock)

    class Slow(FakeJob):
        def ask(self, request, seconds=None):
            if request.startswith("time"):
                clock.now += 0.2
            return super().ask(request, seconds)

    with pytest.raises(OutOfTime):
        run_rounds(tmp_path, Slow(seconds=0.2), catalogue.variant("native"), 99, deadline=101.0)
    assert 100.6 < clock.now <= 101.0


def test_a_foreign_flow_is_seen_on_the_emulated_cluster(tools, emulation, every_body, tmp_path):
    from search.cluster.site import Site

    from .test_configure import TINY, emulated

    flood = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "while True:\n    s.sendto(bytes(1400), (sys.argv[1], 9))\n"
    )
    cluster = emulated(TINY)
    place = tmp_path / "build"
    place.mkdir()
    for name, text in every_body.items():
        (place / name).write_text(text)
    tools.compile_job(place / "alltoall.c", place / "measure")
    with Site(cluster, tools, place) as site:
        job = site.start_job(place / "measure")
        speeds = {f"tiny{i}": 20.0 for i in range(4)}
        watch = Gates(cluster.hosts_of, speeds, site.backend.watched)
        before = watch.look(job.ask("quiet 50", 60), Team(cluster.ranks))
        assert not [trouble for trouble in before if "traffic" in trouble]
        address = subprocess.run(
            site.backend.emulation.on_host("tiny3", ["hostname", "-I"]),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[0]
        flow = subprocess.Popen(
            site.backend.emulation.on_host("tiny0", [sys.executable, "-c", flood, address])
        )
        try:
            time.sleep(1)
            troubles = watch.look(job.ask("quiet 50", 60), Team(cluster.ranks))
        finally:
            flow.kill()
        job.close()
    named = [trouble for trouble in troubles if "traffic" in trouble]
    assert any("tiny0" in trouble for trouble in named)
    assert any("tiny3" in trouble for trouble in named)
    assert not any("tiny1" in trouble for trouble in named)
