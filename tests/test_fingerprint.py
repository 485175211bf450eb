"""What measurements depend on: where any of it changes they are stale, and it is said what did."""

import dataclasses
import json

import pytest
from rich.console import Console

from search import toolchain
from search.cli.tuning import compare_fingerprint
from search.cli.workplace import Workplace
from search.cluster import backend
from search.cluster.hosts import Cluster, Host
from search.cluster.site import Site
from search.cluster.topology_file import parse_conf
from search.results.fingerprint import digest
from search.results.journal import Journal
from search.results.record import Record
from search.results.samples import Sample
from search.results.workload import Workload
from search.toolchain import Toolchain

TREE = "SwitchName=s0 Nodes=n[0-1] Switches=s1 LinkSpeed={}\nSwitchName=s1 Nodes=n2 LinkSpeed=10"
TOOLS = Toolchain("mpicc", "mpiexec", ())


def cluster(names="n0 n1 n2", **more):
    hosts = tuple(Host(name, 1) for name in names.split())
    return Cluster("ssh", hosts, 3, parse_conf(TREE.format(10), "here"), **more)


@pytest.fixture
def prints(tmp_path, monkeypatch):
    """The fingerprint of a cluster under circumstances that can be set."""
    system = {"tcp_congestion_control": "cubic", "tcp_rmem": "4096 131072 6291456"}
    monkeypatch.setattr(backend, "read_proc", lambda name: system.get(name, "1"))
    monkeypatch.setattr(backend.platform, "release", lambda: system.get("release", "6.1"))
    monkeypatch.setattr(backend, "NETWORK_CARDS", tmp_path / "net")
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("TEMPLATES", "PROBES"):
        monkeypatch.setattr(toolchain, name, sources)
    (sources / "ring.c.j2").write_text("ring")
    (sources / "measure.c").write_text("measure")
    card = tmp_path / "net" / "eth0"
    (card / "device" / "driver").mkdir(parents=True)
    for name, value in (("speed", "1000"), ("mtu", "1500")):
        (card / name).write_text(value + "\n")
    (tmp_path / "net" / "lo").mkdir()

    def fields(where=None, library="MPICH 5.0.2", timing="isolated"):
        site = Site(where or cluster(), TOOLS, tmp_path)
        return json.loads(json.dumps(site.fingerprint(library, timing)))

    return fields, system, tmp_path


def faster():
    return dataclasses.replace(cluster(), topology=parse_conf(TREE.format(100), "here"))


CHANGES = {
    "another library": ("library", lambda system, place, patch: {"library": "MPICH 4.0.2"}),
    "another timing": ("timing", lambda *_: {"timing": "loop"}),
    "another host": ("hosts", lambda *_: {"where": cluster("n0 n1 n3")}),
    "another placement": ("hosts", lambda *_: {"where": cluster("n1 n0 n2")}),
    "another speed": ("tree", lambda *_: {"where": faster()}),
    "dilated": ("dilation", lambda *_: {"where": cluster(dilation=4)}),
    "another buffer": ("port buffer", lambda *_: {"where": cluster(buffer=65536)}),
    "a grid": ("grid", lambda *_: {"where": cluster(grid=(1, 3))}),
    "another kernel": ("kernel", lambda system, *_: system.update(release="6.6")),
    "another congestion control": (
        "congestion control",
        lambda system, *_: system.update(tcp_congestion_control="bbr"),
    ),
    "other buffers of TCP": ("tcp", lambda system, *_: system.update(tcp_rmem="4096 1 2")),
    "no selective acknowledgement": ("tcp", lambda system, *_: system.update(tcp_sack="0")),
    "a setting of MPI": (
        "settings",
        lambda system, place, patch: patch.setenv("MPIR_CVAR_CH4_NETMOD", "ucx"),
    ),
    "a setting of its transport": (
        "settings",
        lambda system, place, patch: patch.setenv("FI_PROVIDER", "tcp"),
    ),
    "another MTU": (
        "network cards",
        lambda system, place, patch: (place / "net/eth0/mtu").write_text("9000\n") and None,
    ),
    "another speed of the card": (
        "network cards",
        lambda system, place, patch: (place / "net/eth0/speed").write_text("100\n") and None,
    ),
    "another driver": (
        "network cards",
        lambda system, place, patch: use_driver(place / "net/eth0/device/driver"),
    ),
    "another template": (
        "sources",
        lambda system, place, patch: (place / "sources/ring.c.j2").write_text("Ring") and None,
    ),
    "another probe": (
        "sources",
        lambda system, place, patch: (place / "sources/measure.c").write_text("Measure") and None,
    ),
}


def use_driver(path):
    (path.parent / "r8169").mkdir()
    path.rmdir()
    path.symlink_to("r8169")


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_noticed_and_named(prints, monkeypatch, change):
    fields, system, tmp_path = prints
    name, make = CHANGES[change]
    place = Workplace(tmp_path)
    before = fields()
    assert fields() == before
    Journal(place.journal, digest(before)).append(
        Record(Workload(3, 8), "native", 0, Sample((1e-3,)))
    )
    said = compared(place, before)
    assert said == ""  # for the first time
    after = fields(**(make(system, tmp_path, monkeypatch) or {}))
    assert [key for key in after if after[key] != before.get(key)] == [name]
    said = compared(place, after)
    assert said == f"tune: changed since the last tuning: {name}; all is measured anew\n"
    assert Journal(place.journal, digest(after)).records == []
    assert len(Journal(place.journal, digest(before)).records) == 1  # kept, for its return


def compared(place, fields):
    console = Console(width=200)
    with console.capture() as capture:
        compare_fingerprint(console, place, fields, Journal(place.journal, digest(fields)))
    return capture.get()


def test_no_field_is_without_a_test(prints):
    fields, *_ = prints
    assert {*fields(cluster(grid=(1, 3)))} == {name for name, _ in CHANGES.values()}
