"""Files that are damaged, edited or hostile: one clear line, or nothing of it is believed."""

import random
import re

import pytest

from search.cli.configured import make_cluster, read_cluster, write_cluster
from search.cli.options import parser
from search.cli.settings import Settings
from search.cluster.hostfile import read_hostfile
from search.cluster.topology_file import read_topology
from search.decide.decision import Cutoff, Decision, DecisionTable, Evidence, Origin
from search.decide.decision_file import read_decision, write_decision
from search.emit.emission import emit_c
from search.errors import AtallError
from search.measure.probe import read_machine
from search.results.journal import Journal
from search.results.record import Record
from search.results.samples import Sample
from search.results.workload import Workload
from search.strategy.profile import read_profile
from search.toolchain import TEMPLATES

TREE = (
    "SwitchName=s0 Nodes=n[0-1] Switches=s1 LinkSpeed=20\nSwitchName=s1 Nodes=n[2-3] LinkSpeed=20\n"
)
HOSTS = "n0:2\nn1\n# idle\nn2:3\n"
PROFILE = "# ranks\n8 65536 100 0.421000 phased(sync=none)\n4 12 7 0.000100 in place\n"
SPLICED = [
    b"-1", b"0", b"1e99", b"9" * 23, b'"*/ system(0); /*"', b"[]", b"{}", b"true", b'"\\u0000"',
    b"nan", b'""', b"[[1]]", b"-oProxyCommand=id", b"$(id)", b"`id`", b"??/", b"%n", b"{{7*7}}",
]  # fmt: skip
"""What takes the place of a number or a string."""


def damage(data, chance):
    """Some bytes changed, lost or added; a line twice or all in disorder; the end cut off."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(7)
        lines = bytes(data).split(b"\n")
        if kind == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 2:
            data[at:at] = bytes(chance.choice(b"0123456789\"'[]{}=,.-\n\\#$`;*/") for _ in range(4))
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
            data = bytearray(b"\n".join(lines))
        elif kind == 5:
            found = list(re.finditer(rb'\d+|"[^"]*"', bytes(data)))
            if found:
                match = chance.choice(found)
                data[match.start() : match.end()] = chance.choice(SPLICED)
        else:
            chance.shuffle(lines)
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def records():
    sample = Sample((1e-3, 2e-3), ((1, 4),), 1, (), 0.5)
    yield from (Record(Workload(8, 64), "native", n, sample, scheme="round") for n in range(12))
    yield Record(Workload(8, 64), "ring(sync=none)", failure="wrong data")
    yield Record(Workload(8, 64), void="noise", rounds=(3,))


def read_journal(path, catalogue):
    """What survives is what was written."""
    assert set(Journal(path, "f").records) <= set(records())


def read_tables(path, catalogue):
    """What is accepted can be emitted, and nothing in it ends a comment or a string."""
    text = emit_c(read_decision(path, catalogue), catalogue, TEMPLATES)
    assert "*/ system" not in text
    assert "??/" not in text


READERS = {
    "decision.toml": read_tables,
    "journal.jsonl": read_journal,
    "cluster.json": lambda path, catalogue: read_cluster(path),
    "machine.json": lambda path, catalogue: read_machine(path),
    "topology.conf": lambda path, catalogue: read_topology(path),
    "hosts": lambda path, catalogue: read_hostfile(path),
    "profile": lambda path, catalogue: read_profile(path, 8),
}


@pytest.fixture
def whole(catalogue, tmp_path):
    """Each file as it is written."""
    (tmp_path / "topology.conf").write_text(TREE)
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "profile").write_text(PROFILE)
    (tmp_path / "machine.json").write_text('{"latency": 1e-5, "thresholds": [128], "skew": 0.1}')
    journal = Journal(tmp_path / "journal.jsonl", "f")
    for record in records():
        journal.append(record)
    options = parser().parse_args(["configure", f"--emulate={tmp_path}/topology.conf"])
    write_cluster(tmp_path / "cluster.json", make_cluster(options, {})[0], Settings((4,), (64,)))
    ratio = (1.5, 1.4, 1.6, 1.9)
    evidence = Evidence(64, 0.01, ratio, "native", ratio, 27, 9, 3, 0.9, (0.1, 0.2), True, ("a",))
    rows = (
        Cutoff(256, catalogue.variant("bruck(radix=2)"), "said", evidence),
        Cutoff(None, catalogue.variant("ring(sync=light)"), evidence=evidence),
    )
    tuned = Origin("MPICH", 8, (2, 4), ("00",), "12")
    write_decision(tmp_path / "decision.toml", Decision((DecisionTable(8, rows),), tuned))
    return tmp_path


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "tries", [100, pytest.param(1500, marks=pytest.mark.full)], ids=["some", "many"]
)
def test_damage_is_refused_or_left_out(whole, catalogue, name, tries):
    data, path = (whole / name).read_bytes(), whole / f"damaged-{name}"
    path.write_bytes(data)
    READERS[name](path, catalogue)  # as it is it can be read
    refused = 0
    for seed in range(tries):
        path.write_bytes(damage(data, random.Random(f"{name} {seed}")))
        try:
            READERS[name](path, catalogue)
        except AtallError as error:
            refused += 1
            assert "\n" not in str(error), seed
    assert refused or name == "machine.json"
