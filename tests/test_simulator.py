"""The schedule model: virtual time against what pencil and paper say, and every variant in it."""

from dataclasses import replace
from statistics import median

import pytest

from search.cluster.hosts import Cluster, Host
from search.cluster.topology import PAYLOAD_SHARE
from search.cluster.topology_file import parse_conf
from search.decide.decision import hashed_tree
from search.emit.emission import emit_c, emit_h
from search.errors import EnvironmentFailure
from search.measure.network import Copy
from search.model.simulator import Cost, Simulator, World, fitted, make_world
from search.results.samples import Interval
from search.results.workload import Workload
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .test_expectation import ONE, network
from .test_network import message

RATE = 12.5e6
FRAME = 90 + 24
"""Bytes on the wire beside those of a block: the frame's and the message's."""


def world(switches=(2,), slots=1, mode="immediate", buffer=0, processors=0, **cost) -> World:
    """Hosts on switches in a row, each with so many ranks; all messages cost the same."""
    links, ranks, above = [(-1, 1e15)], [], 0
    for number, hosts in enumerate(switches):
        if number:
            links.append((above, RATE))
            above = len(links) - 1
        for _ in range(hosts):
            links.append((above, RATE))
            ranks += [(len(links) - 1, f"h{len(links)}")] * slots
    times = {"send": 0.0, "receive": 0.0, "latency": 0.0, **cost}
    costs = tuple(
        Cost(size, mode=mode, first=1 << 30, middle=0.0, spike=0.0, gaps=0.0, **times)
        for size in (0, 1 << 20)
    )
    return World(tuple(links), tuple(ranks), costs, buffer, 0, 0.0, 1 << 20, processors)


@pytest.fixture(scope="module")
def program(tools, catalogue, beside, generic, tmp_path_factory):
    """The simulator of every body, for any of the clusters here."""
    folder = tmp_path_factory.mktemp("simulator")
    names = ",".join(f"h{i}" for i in range(64))
    tree = hashed_tree(parse_conf(f"SwitchName=s Nodes={names}", "here"))
    (folder / "catalogue.c").write_text(
        emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, True, beside=beside)
    )
    (folder / "alltoall.h").write_text(emit_h(TEMPLATES))
    flags = (
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-fsanitize=undefined",
        "-fno-sanitize-recover=all",
    )
    replace(tools, cflags=flags).compile_simulator(folder / "catalogue.c", folder / "simulate")
    return folder / "simulate"


def seconds(simulator: Simulator, request: str) -> float:
    return simulator.ask(request)["seconds"][-1]


def test_a_message_takes_what_its_parts_take(program):
    costs = {"send": 10e-6, "receive": 20e-6, "latency": 5e-6}
    with Simulator(program, world(**costs)) as simulator:
        wire = 2 * (1000 + FRAME) / RATE  # of two cables, the switch stores and forwards
        assert seconds(simulator, "pingpong 0 1 1000 1") == pytest.approx(35e-6 + wire, rel=1e-6)


def test_segments_of_a_message_overlap_on_their_way(program):
    with Simulator(program, world((1, 0, 1))) as simulator:
        payload = 1 << 20
        whole = payload / RATE / PAYLOAD_SHARE
        assert whole < seconds(simulator, f"pingpong 0 1 {payload} 3") < 1.01 * whole


def test_a_rendezvous_takes_two_messages_more(program):
    costs = {"send": 10e-6, "receive": 20e-6}
    times = []
    for mode in ("immediate", "rendezvous"):
        with Simulator(program, world(mode=mode, **costs)) as simulator:
            times.append(seconds(simulator, "pingpong 0 1 1000 1"))
    one = 30e-6 + 2 * FRAME / RATE
    assert times[1] - times[0] == pytest.approx(2 * one, rel=1e-6)


def test_ranks_that_share_a_processor_take_turns(program):
    costs = {"send": 10e-6, "receive": 20e-6}
    times = []
    for processors in (0, 1):
        with Simulator(program, world((8,), processors=processors, **costs)) as simulator:
            times.append(seconds(simulator, "neighbours 1 10 1"))
    assert times[0] == pytest.approx(30e-6 + 2 * (1 + FRAME) / RATE, rel=0.2)
    assert times[1] == pytest.approx(8 * 30e-6, rel=0.1)


def test_work_is_found_again_by_what_exchanges_take(program):
    """Of messages, and of waking for them, where ranks share processors."""
    there = replace(world((4, 4), processors=2, send=5e-6), wake=8e-6)
    costs = tuple(
        replace(there.costs[0], bytes=size, receive=12e-6, latency=2e-5) for size in (1, 1448)
    )
    there = replace(there, costs=costs)
    exchanges = ("pingpong 0 7 {} 3", "neighbours {} 4 3", "crowd {} 2 3")

    def taken(world):
        with Simulator(program, world) as simulator:
            return [
                [median(simulator.ask(words.format(cost.bytes))["seconds"]) for words in exchanges]
                for cost in costs
            ]

    times = taken(there)
    sizes = []
    for cost, mine in zip(costs, times):
        one_way, alone, among = (Interval(s, s, s) for s in mine)
        known = {"one_way": one_way, "all_at_once": alone, "all_with_all": among}
        sizes.append(replace(message(cost.bytes, "immediate"), **known))
    wrong = tuple(replace(cost, receive=3e-6, latency=0.0) for cost in costs)
    found = fitted(
        program, replace(there, costs=wrong, wake=0.0), replace(network(), messages=sizes)
    )
    for mine, others in zip(taken(found), times):
        assert mine == pytest.approx(others, rel=0.1)
    assert found.wake == pytest.approx(8e-6, rel=0.5)


def test_a_burst_beyond_a_port_loses_segments(program):
    with Simulator(program, world((8,), buffer=32768)) as simulator:
        few, many = (simulator.ask(f"burst {k} 16384 3") for k in (1, 7))
        assert few["resent"] == 0 and few["timeouts"] == 0
        assert many["resent"] > 0
        simulator.ask("lossless 1")
        held = simulator.ask("burst 7 16384 3")
        assert held["resent"] == 0 and max(held["seconds"]) < max(many["seconds"])


def test_a_burst_takes_as_long_as_its_bytes_need(program):
    with Simulator(program, world((4,))) as simulator:
        calls = simulator.ask("burst 3 1448 4")["seconds"]
    assert min(calls) >= 3 * 1448 / RATE


def test_the_same_question_has_the_same_answer(program, catalogue):
    simple = catalogue.variant("simple(order=shifted)")
    with Simulator(program, world((4, 4), buffer=32768)) as simulator:
        one, other = (simulator.predict(simple, 65536) for _ in range(2))
        assert one == other and one.retransmissions > 0


@pytest.mark.parametrize(
    "switches, slots",
    [
        ((2,), 1),
        ((3,), 1),
        ((4, 3), 1),
        pytest.param((4, 4), 1, marks=pytest.mark.full),
        pytest.param((2, 2), 4, marks=pytest.mark.full),
    ],
)
def test_every_variant_ends_however_sends_wait_and_beats_no_limit(
    program, catalogue, switches, slots
):
    """Not even if no send is over before its receive has begun does any body wait for ever; and
    nothing is faster than the cables."""
    ranks = slots * sum(switches)
    hosts = [[f"h{i + 10 * s}" for i in range(n)] for s, n in enumerate(switches)]
    lines = [
        f"SwitchName=s{s} Nodes={','.join(names)} LinkSpeed=100"
        + (f" Switches=s{s + 1}" if s + 1 < len(switches) else "")
        for s, names in enumerate(hosts)
    ]
    topology = parse_conf("\n".join(lines), "here")
    cluster = Cluster(
        "emulated", tuple(Host(h, slots) for names in hosts for h in names), ranks, topology
    )
    block = 3000
    for mode in ("immediate", "delivered", "rendezvous"):
        with Simulator(program, world(switches, slots, mode=mode, buffer=32768)) as simulator:
            for variant in catalogue.variants(ranks, each=slots, legacy=True):
                if variant.label == "native":
                    continue
                sample = simulator.predict(variant, block)
                if sample is None:
                    assert not variant.fits(ranks, block, slots), variant.label
                else:
                    assert min(sample.calls) > 0.999 * cluster.limit(Workload(ranks, block)), (
                        variant.label
                    )


def test_blocks_of_one_frame_are_not_dilated(program, catalogue):
    """But the costs of messages are what they are."""
    variant = catalogue.variant("ring(sync=none)")
    plain, slow = (
        replace(
            world((4,), send=10e-6),
            links=tuple((above, rate / n) for above, rate in world((4,)).links),
            timeout=0.2 * n,
            dilation=n,
        )
        for n in (1, 4)
    )
    with Simulator(program, plain) as one, Simulator(program, slow) as other:
        for block in (64, 65536, 64):
            before, after = one.predict(variant, block), other.predict(variant, block)
            times = 1 if block == 64 else 4
            assert after.timeout == 0.2 * times
            assert after.seconds == pytest.approx(times * before.seconds, rel=0.01)


def test_a_broadcast_along_a_chain_is_passed_on_segment_by_segment(program, beside):
    (broadcasts,) = (one for one in beside if one.collective.name == "broadcast")
    chain = "broadcast/segmented(shape=chain,segment={})"
    with Simulator(program, world((4,))) as simulator:
        variants = (broadcasts.variant(chain.format(n)) for n in (65536, 4096))
        whole, cut = (simulator.predict(variant, 65536).seconds for variant in variants)
        wire = 65536 / RATE / PAYLOAD_SHARE
        assert 3 * wire < whole < 3.2 * wire
        assert wire < cut < 1.6 * wire


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "predict",
        "predict nobody 1 0 1",
        "pingpong 0 0 1 1",
        "predict ring(sync=none) -1 0 1",
        "burst 9 1 1",
        "predict ring(sync=none) 1 999 999",
        "predict broadcast/segmented(shape=star,segment=8) 8 0 1",
    ],
)
def test_a_wrong_question_is_refused(program, line):
    with Simulator(program, world()) as simulator:
        assert "error" in simulator.ask(line)
        assert seconds(simulator, "pingpong 0 1 8 1") > 0


def test_its_end_is_noticed(program, tmp_path):
    with Simulator(program, world()) as simulator:
        simulator.close()
        with pytest.raises((EnvironmentFailure, ValueError)):
            simulator.ask("pingpong 0 1 8 1")
    with pytest.raises(EnvironmentFailure, match="cannot run"):
        Simulator(tmp_path / "nothing", world())
    assert ROOT.exists()


def test_hosts_are_found_in_the_tree_by_their_short_names():
    """A host file may have domains where the switches' file has none; and a speed that nobody knows
    is what the host was seen to send."""
    tree = parse_conf("SwitchName=s0 Nodes=a,b Switches=s1\nSwitchName=s1 Nodes=c", "here")
    cluster = Cluster("ssh", tuple(Host(f"{h}.site", 2) for h in "abc"), 6, tree)
    seen = replace(network(), rates=(1e7, 2e7, 3e7, 1e7, 4e7, 1e7), copies=(Copy(1, ONE, ONE),))
    made = make_world(cluster, seen)
    homes = [place for place, _ in made.ranks]
    assert homes[0::2] == homes[1::2] and len(set(homes)) == 3
    payload = [made.links[place][1] * PAYLOAD_SHARE for place in homes[0::2]]
    assert payload == pytest.approx([2e7, 3e7, 4e7])
    assert made.links[0][0] == -1 and all(
        0 <= parent < i for i, (parent, _) in enumerate(made.links) if i
    )
