"""Point-to-point parameters: what is inferred from times, and a real job's."""

import re
from dataclasses import replace

import pytest
from rich.console import Console

from search.cli.desk import Desk
from search.cli.workplace import Workplace
from search.cluster.hosts import Cluster, Host
from search.cluster.topology import FULL_FRAME
from search.cluster.topology_file import parse_conf
from search.files import read_json, write_json
from search.measure import messages as subject
from search.measure.messages import agreed, line, measure_network, mode_of, pattern, quietest
from search.measure.network import MODES, Burst, MessageTimes, Network, changes
from search.measure.probe import wrong_speeds
from search.results.samples import Interval
from search.toolchain import TEMPLATES

ONE = Interval(1e-5, 1e-5, 1e-5)


def message(size: int, mode: str, one_way: float = 1e-3) -> MessageTimes:
    whole = Interval(one_way, one_way, one_way)
    return MessageTimes(size, whole, *[ONE] * 7, 0.0, mode, 16, 0.0, 0.0, 1e-5)


@pytest.mark.parametrize(
    "one_way, receive, start, end, mode",
    [
        (5e-5, 1e-5, 1e-5, 2e-5, "immediate"),
        (5e-3, 1e-4, 1e-4, 2e-4, "immediate"),
        (5e-3, 1e-4, 4.5e-3, 4.6e-3, "blocking"),
        (5e-3, 1e-4, 1e-4, 1.3e-2, "delivered"),
        (5e-3, 5e-3, 1e-4, 1.8e-2, "rendezvous"),
        (5e-5, 5e-5, 1e-5, 1.3e-2, "delivered"),  # too short to tell
    ],
)
def test_the_mode_of_a_send_shows_when_its_receiver_is_late(one_way, receive, start, end, mode):
    assert mode_of(one_way, receive, start, end, 1.3e-2) == mode


def test_a_disturbed_size_is_taken_for_what_its_neighbours_are():
    modes = ["immediate", "delivered", "immediate", "delivered", "delivered"]
    found = agreed([message(1 << i, mode) for i, mode in enumerate(modes)])
    assert [p.mode for p in found] == ["immediate"] * 3 + ["delivered"] * 2


def test_short_messages_that_cannot_tell_are_as_the_long_ones():
    short = [message(1, "immediate", 5e-5), message(256, "delivered", 5e-5)]
    found = agreed([*short, message(65536, "rendezvous", 5e-3)])
    assert [p.mode for p in found] == ["immediate", "rendezvous", "rendezvous"]
    assert [p.bytes for p in changes(found)] == [1, 256]


def test_of_several_passes_the_quietest_counts():
    """Each time by itself, and the mode that was seen most often."""
    noisy = replace(message(1, "immediate", 9e-3), work=3.0)
    one, other = message(1, "delivered", 1e-3), replace(message(1, "delivered", 2e-3), work=1.0)
    found = quietest([noisy, one, other])
    assert found.mode == "delivered" and found.one_way.median == 1e-3 and found.work == 0.0


def test_spikes_of_isends_are_found():
    starts = [10e-6] * 8 + ([200e-6] + [12e-6] * 4) * 3
    first, spike, middle, mid = pattern(starts)
    assert (first, middle) == (8, 4)
    assert spike == pytest.approx(200e-6) and mid == pytest.approx(12e-6)


def test_isends_that_become_cheap_are_no_spikes():
    assert pattern([10e-6, 9e-6, 11e-6, 2e-6, 2e-6, 2e-6]) == (3, 0.0, 0.0, pytest.approx(2e-6))


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((118e6, 110e6), None),
        ((118e6, 47e6), "host b moves 399 Mbit/s, the topology says 1000"),
        ((11e6, 11e6), r"host a \(and 1 more\) moves 93 Mbit/s"),
        ((1.18e9, 118e6), "host a moves 1.* Mbit/s"),
    ],
)
def test_a_topology_with_other_speeds_than_are_measured_is_named(rates, said):
    tree = parse_conf("SwitchName=s Nodes=a,b LinkSpeed=1000", "here")
    cluster = Cluster("ssh", (Host("a", 1), Host("b", 1)), 2, tree)
    found = wrong_speeds(cluster, rates)
    assert bool(found) == bool(said) and (not said or re.match(said, found[0]))
    assert wrong_speeds(replace(cluster, backend="emulated"), rates) == []
    two_each = replace(cluster, hosts=(Host("a", 2), Host("b", 2)), ranks=4)
    assert wrong_speeds(two_each, (*rates, *rates)) == []
    unknown = replace(cluster, topology=parse_conf("SwitchName=s Nodes=a,b", "here"))
    assert wrong_speeds(unknown, rates) == []


def test_a_host_that_is_slower_than_most_is_named():
    """A card that fell back to 100 Mbit/s, where nothing says what speeds there are."""
    tree = parse_conf("SwitchName=s Nodes=n[0-3]", "here")
    cluster = Cluster("ssh", tuple(Host(f"n{i}", 1) for i in range(4)), 4, tree)
    assert wrong_speeds(cluster, (118e6, 110e6, 90e6, 117e6)) == []
    (said,) = wrong_speeds(cluster, (118e6, 11.8e6, 11.7e6, 118e6))
    assert said.startswith("host n1 (and 1 more) moves 100 Mbit/s to the next, most hosts 1003")


def test_a_line_through_times():
    assert line([(n, 2e-5 + n * 1e-8) for n in (1, 1000, 100000)]) == pytest.approx((2e-5, 1e-8))
    assert line([(1, 3e-5)]) == (pytest.approx(3e-5), 0.0)


@pytest.fixture(scope="module")
def measured(tools, catalogue, waiting_jobs, tmp_path_factory):
    """The parameters of four ranks on this machine."""
    root = tmp_path_factory.mktemp("network")
    (root / "build").mkdir()
    from search.cluster.hosts import Cluster, Host
    from search.cluster.site import Site
    from search.cluster.topology import single_switch

    cluster = Cluster("local", (Host("here", 4),), 4, single_switch(["here"]))
    with Site(cluster, tools, root / "build") as site:
        job = Desk(Console(), Workplace(root), catalogue, 0.0).start_job(site)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subject, "SIZES", (1, 64, 4096, 65536))
            patch.setattr(subject, "TRAINS", (16,))
            patch.setattr(subject, "LEAST_RATE_SECONDS", 1e-3)
            patch.setattr(subject, "MOST_RATE_SECONDS", 1e-3)
            patch.setattr(subject, "LONGEST", 60.0)  # however slow this machine is now
            yield measure_network(lambda x: job.ask(x, 60), 4, (256,), 2, None, lambda: 0.0)
        job.close()


def test_a_job_answers_all_that_is_asked(measured):
    assert TEMPLATES.exists()
    assert {1, 64, 256, 257, 4096, 65536} <= {p.bytes for p in measured.messages}
    assert sorted(measured.messages, key=lambda p: p.bytes) == list(measured.messages)
    one_way = line([(p.bytes, p.one_way.median) for p in measured.messages])
    both_ways = line([(p.bytes, p.both_ways.median) for p in measured.messages])
    assert (measured.alpha_uni, measured.beta_uni) == one_way  # the names of Thakur et al.
    assert (measured.alpha, measured.beta) == both_ways
    for p in measured.messages:
        assert p.mode in MODES
        for time in (p.one_way, p.o_r, p.o_s, p.both_ways, p.all_at_once, p.each):
            assert 0 < time.low <= time.median <= time.high
        assert (p.all_with_all.low > 0) == (p.bytes <= FULL_FRAME)
    assert set(measured.barriers) == {"library", "ring", "dissemination", "tournament"}
    assert len(measured.rates) == 4 and min(measured.rates) > 0
    assert {burst.senders for burst in measured.bursts} == {1, 2, 3}
    assert all(copy.together.median > 0 for copy in measured.copies)


def test_parameters_come_back_from_their_file(measured, tmp_path):
    write_json(tmp_path / "network", measured)
    assert read_json(tmp_path / "network", Network) == measured


def test_senders_that_a_port_carries_without_loss(measured):
    bursts = [(1, 0.0), (2, 0.0), (3, 0.0), (4, 2.5), (5, 0.0)]
    some = replace(measured, bursts=tuple(Burst(k, 8192, ONE, lost) for k, lost in bursts))
    assert some.quiet_senders(8192) == 3
    assert some.quiet_senders(1) == -1
