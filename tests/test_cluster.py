"""Hosts, placement and the exact command lines of launchers."""

import os
from argparse import Namespace
from dataclasses import replace

import pytest
from msgspec import structs
from rich.console import Console

from search.cli.configured import make_cluster, read_cluster, write_cluster
from search.cli.desk import Desk
from search.cli.options import parser
from search.cli.settings import Settings
from search.cli.verbs.configure import keep_better
from search.cli.workplace import Workplace
from search.cluster.backends import backend_of
from search.cluster.backends.ssh import Ssh
from search.cluster.hostfile import read_hostfile
from search.cluster.hosts import Host, ordered
from search.cluster.hydra import hostfile_text
from search.cluster.site import misplaced
from search.cluster.slurm import slurm_hosts
from search.cluster.topology_file import parse_conf
from search.decide.decision import Origin
from search.decide.decision_file import write_decision
from search.errors import EnvironmentFailure, UserError
from search.toolchain import Toolchain

TREE = parse_conf(
    "SwitchName=s0 Nodes=a,b,c Switches=s1 LinkSpeed=10\nSwitchName=s1 Nodes=d,e", "here"
)
TOOLS = Toolchain("mpicc", "mpiexec", ())
TUNED = Origin("MPICH", 2, fingerprint="0")


def options(*words: str) -> Namespace:
    return parser().parse_args(["configure", *words])


def names(hosts):
    return [host.name for host in hosts]


def test_placements():
    hosts = [Host(name, 1) for name in ("e", "a", "d", "c", "b")]
    assert names(ordered(hosts, TREE, "switch")) == ["a", "b", "c", "d", "e"]
    assert names(ordered(hosts, TREE, "interleaved")) == ["a", "d", "b", "e", "c"]
    assert names(ordered(hosts, TREE, "file")) == ["e", "a", "d", "c", "b"]
    assert names(ordered(hosts[:2], TREE, "switch")) == ["a", "e"]


def test_host_files(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# two\nn1:4  # four\n\nn0\n")
    assert read_hostfile(path) == [Host("n1", 4), Host("n0", 1)]
    path.write_text("10.0.0.1\n10.0.0.2:2\n")
    assert read_hostfile(path) == [Host("10.0.0.1", 1), Host("10.0.0.2", 2)]
    path.write_text("n1.a.org\nn1.b.org:2\n")
    assert read_hostfile(path) == [Host("n1.a.org", 1), Host("n1.b.org", 2)]
    path.write_text("n[1-2]:3\nm slots=2 max_slots=4\no max-slots=2\n")
    hosts = [Host("n1", 3), Host("n2", 3), Host("m", 2), Host("o", 1)]
    assert read_hostfile(path) == hosts
    for text, word in (
        ("n1 4", "slots=NUMBER"),
        ("n1:2 slots=2", "slots=NUMBER"),
        ("n1 slots=0", "slots"),
        ("n1 ifhn=n1-ib", "slots=NUMBER"),
        ("n[1-", "brackets"),
        ("n[1-2]\nn2", "twice: use host:slots"),
        ("n1:x", "slots"),
        ("n1:0", "slots"),
        ("n1\nN1.org", "N1.org and n1 may be one host: write both in full"),
        ("n1\nN1", "twice: use host:slots"),
        ("-o", "not a name"),
        ("", "no host"),
        ("$(id)", "not a name"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=word):
            read_hostfile(path)


def test_the_source_of_the_tree_is_said(tmp_path):
    (tmp_path / "hosts").write_text("n1\nn0\n")
    (tmp_path / "tree").write_text("SwitchName=s Nodes=n[0-1]\n")
    for words, said in (((), "one switch"), ((f"--topology={tmp_path}/tree",), f"{tmp_path}/tree")):
        chosen = options(f"--hostfile={tmp_path}/hosts", *words)
        assert make_cluster(chosen, {})[1].startswith(f"topology: {said}")


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        (["10.0.0.1", "10.0.0.2"], ["n1", "n2"], "host 10.0.0.1 calls itself n1"),
        (["n1-ib", "n1-ib", "n2-ib"], ["n1", "n1", "n2"], "host n1-ib calls itself n1"),
        (["n1.a", "n1.b", "n2"], ["n1", "n1", "n2"], "host n1.a calls itself n1, as another may"),
        (["n1", "n2"], ["n2", "n1"], "not placed as asked"),
        (["a1", "a2"], ["n1", "n1"], "not placed as asked"),
        (["a1", "a1"], ["n1", "n2"], "not placed as asked"),
        (["n1", "n2"], ["n3"], "not placed as asked"),
    ],
)
def test_hosts_with_other_names_for_themselves_are_told_from_ranks_elsewhere(wanted, found, said):
    assert said in misplaced(wanted, found)


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """An srun that knows of no switches."""
    (tmp_path / "srun").write_text("#!/bin/sh\n")
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_slurm_jobs(srun):
    environment = {"SLURM_JOB_NODELIST": "n[0-2],m", "SLURM_TASKS_PER_NODE": "2(x3),1"}
    assert slurm_hosts(environment) == [Host("n0", 2), Host("n1", 2), Host("n2", 2), Host("m", 1)]
    cluster, _ = make_cluster(options("--launcher=srun"), environment)
    assert (cluster.backend, cluster.ranks) == ("srun", 7)
    for tasks in ("2", "x", "1(x5)"):
        with pytest.raises(UserError, match="SLURM_TASKS_PER_NODE"):
            slurm_hosts({**environment, "SLURM_TASKS_PER_NODE": tasks})


def test_ranks_fill_hosts_and_a_cluster_is_read_back(tmp_path):
    (tmp_path / "hosts").write_text("n1:2\nn0:3\n")
    cluster, _ = make_cluster(options(f"--hostfile={tmp_path}/hosts", "--np=4"), {})
    assert cluster.host_of_rank() == ["n1", "n1", "n0", "n0"]
    assert cluster.ranks_on() == {"n1": 2, "n0": 2}
    assert hostfile_text(cluster) == "n1:2\nn0:2\n"
    settings = Settings((4,), (1,), time_limit=9, profile={4: (1, 8)})
    write_cluster(tmp_path / "c.json", cluster, settings)
    assert read_cluster(tmp_path / "c.json") == (cluster, settings)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(UserError, match="damaged"):
        read_cluster(tmp_path / "c.json")
    with pytest.raises(UserError, match="run ./configure first"):
        read_cluster(tmp_path / "none.json")


def started_by(cluster, folder, patch, **settings):
    """The command line that starts a cluster's ranks."""
    backend = backend_of(cluster.backend)
    patch.setattr(backend, "settings", settings)
    return backend(cluster, TOOLS, folder, print).argv(folder / "measure")


def test_command_lines(tmp_path, srun, monkeypatch):
    (tmp_path / "hosts").write_text("n1:2\nn0:1\n")
    program, setting = str(tmp_path / "measure"), {"FI_PROVIDER": "tcp"}
    remote, _ = make_cluster(options(f"--hostfile={tmp_path}/hosts"), {})
    assert started_by(remote, tmp_path, monkeypatch, **setting) == [
        "mpiexec",
        "-launcher",
        "ssh",
        "-f",
        str(tmp_path / "hostfile"),
        "-n",
        "3",
        "-genv",
        "FI_PROVIDER",
        "tcp",
        program,
    ]
    assert (tmp_path / "hostfile").read_text() == "n1:2\nn0:1\n"
    local, _ = make_cluster(options("--np=3"), {})
    assert started_by(local, tmp_path, monkeypatch) == ["mpiexec", "-n", "3", program]
    slurm, _ = make_cluster(options("--launcher=srun"), {"SLURM_JOB_NODELIST": "n[0-1]"})
    assert started_by(slurm, tmp_path, monkeypatch, **setting) == [
        "srun",
        "--input=0",
        "--ntasks=2",
        "--distribution=arbitrary",
        "--export=ALL,FI_PROVIDER=tcp",
        program,
    ]
    (tmp_path / "tree").write_text("SwitchName=s0 Nodes=n[0-1] LinkSpeed=10\n")
    emulated, _ = make_cluster(options(f"--emulate={tmp_path}/tree"), {})
    assert started_by(emulated, tmp_path, monkeypatch, **setting)[-3:] == [
        "/run/atall/enter",
        "n0",
        "mpiexec -launcher ssh -launcher-exec /run/atall/enter -iface e0 "
        f"-f {tmp_path}/hostfile -n 2 -genv FI_PROVIDER tcp {program}",
    ]


SSH = {
    "refuses": "echo 'Permission denied (publickey).' >&2; exit 255",
    "babbles": "echo 'Welcome!'; exit 0",
    "fails quietly": "exit 1",
}


@pytest.mark.parametrize("kind", SSH)
def test_preflight_names_the_host_and_the_cure(tmp_path, monkeypatch, kind):
    (tmp_path / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\n{SSH[kind]}\n')
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "hosts").write_text("n1\nn2\n")
    cluster, _ = make_cluster(options(f"--hostfile={tmp_path}/hosts"), {})
    if kind == "babbles":
        Ssh(cluster, TOOLS, tmp_path, print).__enter__()
        said = (tmp_path / "log").read_text().splitlines()
        assert sorted(said)[0] == "-o BatchMode=yes -o ConnectTimeout=5 -- n1 true"
        return
    with pytest.raises(EnvironmentFailure, match=r"host n1 .*1 more.*ssh n1 true"):
        Ssh(cluster, TOOLS, tmp_path, print).__enter__()


def test_a_tuned_file_is_not_replaced_because_no_cluster_is_named(tmp_path, catalogue, generic):
    place = Workplace(tmp_path)
    place.generated.mkdir()
    desk = Desk(Console(), place, catalogue, 0.0)
    local, _ = make_cluster(options("--np=2"), {})
    keep_better(desk, local, fresh=False)  # nothing is there
    for hosts, words in (("0",), ()), (("0", "1"), ("tuned for 2 hosts", "--fresh")):
        write_decision(place.decision, replace(generic, tuned=structs.replace(TUNED, hosts=hosts)))
        keep_better(desk, local, fresh=True)
        if words:
            with pytest.raises(UserError, match=".*".join(words)):
                keep_better(desk, local, fresh=False)
        else:
            keep_better(desk, local, fresh=False)
