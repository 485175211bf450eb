"""ATALL on a cluster of real daemons: over ssh, and in Slurm's allocations."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.stand import HOSTS, RATE, SWITCHES, Stand, Unfit, check_fit
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster

BRIEF = ("--sizes=64,16384", "--only=ring,phased,bruck")
LONGER = ("--sizes=64,1024,4096,16384",)
"""What has time to be interrupted."""
PMI = {"SLURM_MPI_TYPE": "pmi2"}
PATIENCE = 600.0


@pytest.fixture(scope="module")
def stand(tmp_path_factory):
    try:
        check_fit()
    except Unfit as why:
        pytest.skip(str(why))
    with Stand(tmp_path_factory.mktemp("stand")) as there:
        there.start_slurm()
        yield there


@pytest.fixture(scope="module")
def waiting(waiting):
    """The same, over the network that a real cluster has chosen."""
    return {"LD_PRELOAD": waiting["LD_PRELOAD"]}


def make_place(path):
    """A directory with what says which hosts there are, and on which switches."""
    path.mkdir()
    (path / "hosts").write_text("".join(f"{host}\n" for host in HOSTS))
    lines = [f"SwitchName={name} Nodes={','.join(hosts)}" for name, hosts in SWITCHES.items()]
    lines.append(f"SwitchName=top Switches={','.join(SWITCHES)} LinkSpeed={RATE}\n")
    (path / "tree.conf").write_text("\n".join(lines))
    return path


@pytest.fixture
def place(stand, request):
    return make_place(stand.root / f"at-{request.node.name}")


@pytest.fixture(scope="module")
def configure(tools):
    """The command line of ./configure with some options."""

    def words(*options, search=BRIEF, mpicc=tools.mpicc):
        program = [str(ROOT / "configure"), f"PYTHON={sys.executable}", f"MPICC={mpicc}"]
        return [*program, "--effort=quick", "--accept-noise", *search, *options]

    return words


SSH = ("--hostfile=hosts", "--topology=tree.conf")
SALLOC = ("salloc", "-Q", "--ntasks-per-node=1")


def table(place):
    return (place / "generated" / "decision.toml").read_text()


def test_ssh_from_configure_to_a_program(stand, place, waiting, configure, tools):
    done = stand.run("n1", *configure(*SSH), cwd=place, settings=waiting, timeout=PATIENCE)
    assert "4 ranks on 4 remote hosts, 3 switches" in done.stdout
    assert "contention-free in 4 phases, as fast as can be" in done.stdout
    assert "topology: tree.conf" in done.stdout
    assert "messages go over eth0" in done.stdout
    words = ("make", "bench", "LAUNCHES=1", "SIZES=64")
    done = stand.run("n1", *words, cwd=place, settings=waiting, timeout=PATIENCE)
    assert "sizes" in done.stdout.splitlines()[-1]
    stand.run("n1", "make", "install", f"PREFIX={place}/there", cwd=place)
    program = place / "transpose"
    source = ROOT / "doc" / "examples" / "transpose.c"
    tools.run([tools.mpicc, f"-I{place}/generated", str(source), f"-L{place}/there/lib", "-latall",
               f"-Wl,-rpath,{place}/there/lib", "-o", str(program)], "the example")  # fmt: skip
    words = [tools.mpiexec, "-launcher", "ssh", "-f", "hosts", "-n", "4", str(program)]
    settings = {**waiting, "ATALL_VERBOSE": "1"}
    done = stand.run("n1", *words, cwd=place, settings=settings, timeout=60)
    assert "table for 4 ranks" in done.stdout and "transposed and verified" in done.stdout


def test_ssh_when_a_host_is_down(stand, place, configure):
    stand.cut("n3")
    try:
        done = stand.run("n1", *configure(*SSH), cwd=place, check=False, timeout=PATIENCE)
    finally:
        stand.mend("n3")
    assert done.returncode == 2
    assert "host n3 cannot be used" in done.stdout.splitlines()[-1]
    assert not (place / "generated" / "alltoall.c").exists()


def test_ssh_with_a_key_that_is_not_known(stand, place, configure):
    known = stand.root / "ssh" / "known_hosts"
    text = known.read_text()
    known.write_text("".join(line for line in text.splitlines(True) if not line.startswith("n2")))
    try:
        done = stand.run("n1", *configure(*SSH), cwd=place, check=False, timeout=PATIENCE)
    finally:
        known.write_text(text)
    assert done.returncode == 2
    assert "ssh-keyscan n2 >> ~/.ssh/known_hosts" in done.stdout.splitlines()[-1]


def hide(stand, host, path):
    """Take a directory away on one host."""
    stand.run(host, "mount", "-t", "tmpfs", "tmpfs", str(path))


@pytest.mark.parametrize("launcher", ["ssh", "srun"])
def test_a_host_without_the_directory_is_named(stand, place, configure, launcher):
    words = configure(*SSH) if launcher == "ssh" else [*SALLOC, "-N4", *configure()]
    (place / "build").mkdir()
    hide(stand, "n3", place / "build")
    done = stand.run("n1", *words, cwd=place, check=False, timeout=PATIENCE)
    stand.run("n3", "umount", str(place / "build"))
    assert done.returncode == 2
    (line,) = [line for line in done.stdout.splitlines() if "host n3" in line]
    assert f"there is no program {place}/build/measure: all hosts need this directory" in line


def test_a_host_with_another_program_is_named(stand, place, waiting, configure):
    (place / "build").mkdir()
    hide(stand, "n4", place / "build")
    stand.run("n4", "cp", "/bin/true", str(place / "build" / "measure"))
    done = stand.run("n1", *configure(*SSH), cwd=place, check=False, timeout=PATIENCE)
    stand.run("n4", "umount", str(place / "build"))
    assert done.returncode == 2
    assert "host n4" in done.stdout.splitlines()[-1]
    assert "another program than here" in done.stdout.splitlines()[-1]


def test_hosts_with_other_sysctls_are_named(stand, place, waiting, configure):
    usual = stand.run("n2", "cat", "/proc/sys/net/ipv4/tcp_sack").stdout.strip()
    stand.run("n2", "sysctl", "-qw", "net.ipv4.tcp_sack=0")
    try:
        words = configure(*SSH, "--time-limit=5")
        done = stand.run("n1", *words, cwd=place, settings=waiting, check=False, timeout=PATIENCE)
    finally:
        stand.run("n2", "sysctl", "-qw", f"net.ipv4.tcp_sack={usual}")
    assert "cluster: hosts differ in tcp_sack: 0 on n2, 1 on 3 hosts" in done.stdout


def is_at_work(stand, host, place):
    return stand.processes(host, f"{place}/build/measure")


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.2)


BLOCKED = (
    "add table inet block",
    "add chain inet block input { type filter hook input priority 0; }",
    "add rule inet block input ct state established,related accept",
    "add rule inet block input tcp dport != 22 drop",
)


def test_a_firewall_is_thought_of(stand, place, waiting, configure):
    """ssh gets through to n3, nothing else does."""
    if not shutil.which("nft", path="/usr/sbin:/sbin"):
        pytest.skip("no nft: install nftables")
    stand.run("n3", "nft", "; ".join(BLOCKED))
    try:
        words = configure(*SSH)
        done = stand.run("n1", *words, cwd=place, settings=waiting, check=False, timeout=PATIENCE)
    finally:
        stand.run("n3", "nft", "delete table inet block")
    assert done.returncode == 2
    assert "messages of MPI do not get through: a firewall" in done.stdout.splitlines()[-1]


def test_a_smaller_mtu_on_the_way_is_thought_of(stand, place, waiting, configure):
    """Small messages arrive."""
    stand.fabric("ip", "link", "set", "n3", "mtu", "1300")
    try:
        words = configure(*SSH)
        done = stand.run("n1", *words, cwd=place, settings=waiting, check=False, timeout=PATIENCE)
    finally:
        stand.fabric("ip", "link", "set", "n3", "mtu", "1500")
    assert done.returncode == 2
    assert "a smaller MTU on the way" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("launcher", ["ssh", "srun"])
def test_kill_9_of_the_driver_leaves_nothing(stand, place, waiting, configure, launcher):
    """And a tuning that was killed goes on."""
    words = configure(*(SSH if launcher == "ssh" else ()), search=LONGER)
    words = words if launcher == "ssh" else [*SALLOC, "-N4", *words]
    settings = {**waiting, **PMI}
    running = stand.start("n1", *words, cwd=place, settings=settings)
    journal = place / "build" / "measurements.jsonl"
    wait_for(lambda: journal.exists() and len(journal.read_bytes().splitlines()) > 20)
    stand.run("n1", "pkill", "-KILL", "-f", "python.*search configure")
    running.wait(30)
    wait_for(lambda: not any(is_at_work(stand, host, place) for host in HOSTS), 30)
    if launcher == "srun":
        stand.wait_until_idle(HOSTS)
    done = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE)
    assert "records are there already" in done.stdout


@pytest.mark.parametrize("kind", [None, "pmi2"])
@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_slurm_tunes_for_its_switches(stand, place, waiting, configure, way, kind):
    settings = {**waiting, **(PMI if kind else {})}
    if way == "salloc":
        words = [*SALLOC, "-N4", *configure()]
        said = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE).stdout
    else:
        script = place / "job"
        script.write_text("#!/bin/sh\n" + " ".join(configure()) + "\n")
        words = ["sbatch", "-W", "-N4", "--ntasks-per-node=1", "-o", f"{place}/out", str(script)]
        done = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE, check=False)
        said = (place / "out").read_text()
        assert done.returncode == 0, said
    assert "4 ranks on 4 remote hosts, 3 switches" in said
    assert "topology: SLURM_TOPOLOGY_ADDR of the Slurm job" in said
    assert "contention-free in 4 phases, as fast as can be" in said
    assert ("connects them with SLURM_MPI_TYPE=pmi2" in said) == (kind is None)
    assert "messages go over eth0" in said
    assert "generated/alltoall.c is ready" in said


def test_slurm_without_a_drained_node(stand, place, waiting, configure):
    stand.run("n1", "scontrol", "update", "nodename=n2", "state=drain", "reason=test")
    try:
        words = [*SALLOC, "-N3", *configure()]
        settings = {**waiting, **PMI}
        said = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE).stdout
    finally:
        stand.run("n1", "scontrol", "update", "nodename=n2", "state=resume")
        stand.wait_until_idle(HOSTS)
    assert "3 ranks on 3 remote hosts" in said
    known = json.loads((place / "build" / "cluster.json").read_text())
    assert [host["name"] for host in known["cluster"]["hosts"]] == ["n1", "n3", "n4"]


def test_slurm_with_two_ranks_a_host(stand, place, waiting, configure):
    words = ["salloc", "-Q", "-N4", "--ntasks-per-node=2", *configure()]
    said = stand.run("n1", *words, cwd=place, settings={**waiting, **PMI}, timeout=PATIENCE).stdout
    assert "8 ranks on 4 remote hosts, 3 switches" in said


def test_scancel_and_going_on_in_the_next_job(stand, place, waiting, configure):
    settings = {**waiting, **PMI}
    words = [*SALLOC, "-N4", *configure(search=LONGER)]
    running = stand.start("n1", *words, cwd=place, settings=settings)
    journal = place / "build" / "measurements.jsonl"
    wait_for(lambda: journal.exists() and len(journal.read_bytes().splitlines()) > 20)
    stand.run("n1", "scancel", "--user=root")
    said, _ = running.communicate(timeout=PATIENCE)
    assert "Traceback" not in said
    assert not (place / "generated" / "alltoall.c").exists(), said
    stand.wait_until_idle(HOSTS)
    said = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE).stdout
    assert "records are there already" in said


def test_a_cable_that_is_cut_under_srun(stand, place, waiting, configure):
    words = [*SALLOC, "-N4", *configure(search=LONGER)]
    running = stand.start("n1", *words, cwd=place, settings={**waiting, **PMI})
    journal = place / "build" / "measurements.jsonl"
    wait_for(lambda: journal.exists() and len(journal.read_bytes().splitlines()) > 20)
    stand.cut("n3")
    try:
        said, _ = running.communicate(timeout=PATIENCE)
    finally:
        stand.mend("n3")
        stand.wait_until_idle(HOSTS)
    assert running.returncode == 2, said
    last = [line for line in said.splitlines() if line.startswith("atall:")][-1]
    assert "the Slurm allocation is over (n3 down)" in last, said


def test_mpich_of_debian_beside_the_wheel(stand, place, waiting, configure, debian):
    words = [*SALLOC, "-N4", *configure(mpicc=debian.mpicc)]
    settings = {**waiting, **PMI}
    said = stand.run("n1", *words, cwd=place, settings=settings, timeout=PATIENCE).stdout
    assert "3 switches" in said
    assert "MPICH 4" in table(place)


@pytest.fixture(scope="module")
def tuned(stand, waiting, configure):
    """A directory that is tuned over ssh; made anew for each test of what may change then."""
    place = make_place(stand.root / "tuned")
    words = configure(*SSH, search=("--sizes=64,4096,32768",))
    stand.run("n1", *words, cwd=place, settings=waiting, timeout=PATIENCE)
    return place


def verified(stand, place, waiting):
    words = (str(ROOT / "configure"), "--verify")
    return stand.run("n1", *words, cwd=place, settings=waiting, check=False, timeout=PATIENCE)


def test_verify_when_nothing_changed(stand, tuned, waiting):
    """But for what a busy machine does to times."""
    done = verified(stand, tuned, waiting)
    assert done.returncode in (0, 3, 5), done.stdout
    assert not [line for line in done.stdout.splitlines() if " was " in line]


def test_verify_when_a_link_is_slower(stand, tuned, waiting):
    stand.rate("n3", RATE // 8)
    try:
        done = verified(stand, tuned, waiting)
    finally:
        stand.rate("n3", RATE)
    assert done.returncode in (3, 5), done.stdout


def test_verify_when_a_host_has_other_sysctls(stand, tuned, waiting):
    stand.run("n2", "sysctl", "-qw", "net.ipv4.tcp_sack=0")
    try:
        done = verified(stand, tuned, waiting)
    finally:
        stand.run("n2", "sysctl", "-qw", "net.ipv4.tcp_sack=1")
    assert done.returncode == 5
    assert "tcp_sack was 1, is 1 on 3, 0 on 1" in done.stdout.splitlines()[-1]


def test_verify_with_another_mpi(stand, tuned, waiting, tools, debian):
    if Path(tools.mpicc).resolve() == Path(debian.mpicc).resolve():
        pytest.skip("there is no other MPICH than Debian's")
    settings = tuned / "config.mk"
    text = settings.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("MPI")]
    lines += [f"MPICC = {debian.mpicc}", f"MPIEXEC = {debian.mpiexec}", ""]
    settings.write_text("\n".join(lines))
    try:
        done = verified(stand, tuned, waiting)
    finally:
        settings.write_text(text)
    assert done.returncode == 5
    assert "library was MPICH" in done.stdout.splitlines()[-1]
