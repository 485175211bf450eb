"""The switch tree from the addresses that Slurm gives the hosts of a job."""

import os

import pytest

from search.cluster.slurm import TOP, job_topology, tree_of_addresses
from search.errors import EnvironmentFailure, UserError

PATTERN = "switch.switch.node"


def below(tree):
    return {name: sorted(hosts) for name, hosts in tree.hosts_below().items() if len(hosts) > 1}


def test_addresses_make_a_tree():
    tree = tree_of_addresses(["s0.s4.n1", PATTERN, "s0.s4.n2", PATTERN, "s0.s5.n3", PATTERN])
    assert below(tree) == {"s0": ["n1", "n2", "n3"], "s4": ["n1", "n2"]}
    assert tree.hosts_below()["s5"] == {"n3"}


def test_several_highest_switches_get_one_above_them():
    tree = tree_of_addresses(["a.n1", "a.n2", "b.n3", "b.n4"])
    assert below(tree) == {TOP: ["n1", "n2", "n3", "n4"], "a": ["n1", "n2"], "b": ["n3", "n4"]}


def test_addresses_without_switches_tell_nothing():
    assert tree_of_addresses(["n1", "node", "n2", "node"]) is None


def test_contradicting_addresses_are_refused():
    with pytest.raises(UserError, match="SLURM_TOPOLOGY_ADDR: s4 hangs off"):
        tree_of_addresses(["s0.s4.n1", "s1.s4.n2"])
    with pytest.raises(UserError, match="not a name"):
        tree_of_addresses(["s[0-1].s4.n1"])


def fake_srun(tmp_path, monkeypatch, script):
    command = tmp_path / "srun"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_every_host_of_the_job_is_asked(tmp_path, monkeypatch):
    fake_srun(
        tmp_path,
        monkeypatch,
        f'echo "$*" >{tmp_path}/said; for n in 1 2; do echo "s0.s$n.n$n"; echo {PATTERN}; done',
    )
    tree = job_topology({"SLURM_TOPOLOGY_ADDR": "s0.s1.n1"}, 2)
    assert tree.hosts_below()["s0"] == {"n1", "n2"}
    assert (tmp_path / "said").read_text().split() == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--input=none",
        "printenv",
        "SLURM_TOPOLOGY_ADDR",
        "SLURM_TOPOLOGY_ADDR_PATTERN",
    ]
    assert job_topology({"SLURM_TOPOLOGY_ADDR": "n1"}, 2) is None
    assert job_topology({}, 2) is None


def test_a_failing_srun_is_one_clear_line(tmp_path, monkeypatch):
    fake_srun(tmp_path, monkeypatch, "echo 'srun: error: no allocation' >&2; exit 1")
    with pytest.raises(EnvironmentFailure, match="no allocation"):
        job_topology({"SLURM_TOPOLOGY_ADDR": "s0.n1"}, 2)
    fake_srun(tmp_path, monkeypatch, "echo s0.n1 s1.s0.n2")
    with pytest.raises(EnvironmentFailure, match="--topology=FILE"):
        job_topology({"SLURM_TOPOLOGY_ADDR": "s0.n1"}, 2)
