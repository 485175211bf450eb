"""The switch tree from the addresses that Slurm gives the hosts of a job."""

import os

import pytest

from search.cli.configured import make_cluster
from search.cli.options import parser
from search.cluster.hosts import Cluster, Host
from search.cluster.site import Site
from search.cluster.slurm import TOP, job_topology, tree_of_addresses
from search.errors import EnvironmentFailure, UserError
from search.toolchain import Toolchain

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
    tree = job_topology(2)  # in salloc nothing is in the environment but in tasks
    assert tree.hosts_below()["s0"] == {"n1", "n2"}
    assert (tmp_path / "said").read_text().split() == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--input=none",
        "sh",
        "-c",
        "echo",
        '"$SLURM_TOPOLOGY_ADDR"',
        '"$SLURM_TOPOLOGY_ADDR_PATTERN"',
    ]
    fake_srun(tmp_path, monkeypatch, "echo n1; echo; echo n2 node")
    assert job_topology(2) is None


def test_a_failing_srun_is_one_clear_line(tmp_path, monkeypatch):
    fake_srun(tmp_path, monkeypatch, "echo 'srun: error: no allocation' >&2; exit 1")
    with pytest.raises(EnvironmentFailure, match="no allocation"):
        job_topology(2)
    fake_srun(tmp_path, monkeypatch, "echo s0.n1 s1.s0.n2")
    with pytest.raises(EnvironmentFailure, match="--topology=FILE"):
        job_topology(2)


LISTS = {
    "22.05": "printf 'MPI plugin types are...\\n\\tnone\\n\\tpmix\\n\\tpmi2\\n\\tcray_shasta\\n'",
    "19.05": "echo 'srun: MPI types are...' >&2; echo 'srun: none' >&2; echo 'srun: pmi2' >&2",
}
ALONE = '{"library": "x", "forced": [], "hosts": ["n0"], "rankings": []}'
CONNECTED = ALONE.replace('"n0"', '"n0", "n1"')


@pytest.mark.parametrize("version", LISTS)
@pytest.mark.parametrize("works", ["pmi2", ""])
def test_tasks_that_are_left_alone_are_connected(tmp_path, monkeypatch, version, works):
    """MpiDefault=none: each task is rank 0 of one."""
    fake_srun(
        tmp_path,
        monkeypatch,
        f"""
if [ "$*" = --mpi=list ]; then {LISTS[version]}; exit; fi
case $SLURM_MPI_TYPE in
"{works or "no"}") echo 'atall: {CONNECTED}';;
*) echo 'atall: {ALONE}';;
esac
cat >/dev/null""",
    )
    tree = tree_of_addresses(["s0.n0", "s0.n1"])
    cluster = Cluster("srun", (Host("n0", 1), Host("n1", 1)), 2, tree)
    tools, said = Toolchain("mpicc", "mpiexec", ()), []
    with Site(cluster, tools, tmp_path, said.append) as site:
        if works:
            assert site.start_job(tmp_path / "measure").hosts == ["n0", "n1"]
            assert "SLURM_MPI_TYPE=pmi2" in said[0]
            site.start_job(tmp_path / "measure")
            assert len(said) == 1
        else:
            with pytest.raises(EnvironmentFailure, match="export SLURM_MPI_TYPE=pmi2"):
                site.start_job(tmp_path / "measure")


def test_a_slurm_job_is_started_by_srun_unless_hosts_are_named(tmp_path, monkeypatch):
    fake_srun(tmp_path, monkeypatch, 'echo "s0.n0"; echo "s0.n1"')
    job = {"SLURM_JOB_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "1(x2)"}
    (tmp_path / "hosts").write_text("n0\nn1\n")

    def backend(*words, environment=job):
        return make_cluster(parser().parse_args(["configure", *words]), environment)[0].backend

    listed = f"--hostfile={tmp_path}/hosts"
    assert backend() == backend("--launcher=srun") == backend("--launcher=srun", listed) == "srun"
    assert backend(listed) == backend(listed, "--launcher=hydra") == "ssh"
    assert backend("--launcher=hydra") == backend(environment={}) == "local"
    monkeypatch.setenv("PATH", "/nowhere")
    assert backend() == "local"
