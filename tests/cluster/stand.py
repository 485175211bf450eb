"""A cluster of real daemons on one machine: sshd, munge and Slurm on hosts made of namespaces.

Four hosts on two switches, with a shared file system. Needs root, and Debian's packages PACKAGES.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGES = ("openssh-server", "munge", "slurmctld", "slurmd", "slurm-client")
PROGRAMS = ("sshd", "ssh-keygen", "munged", "slurmctld", "slurmd", "srun", "nsenter", "ip", "tc")
SWITCHES = {"s1": ("n1", "n2"), "s2": ("n3", "n4")}
HOSTS = tuple(host for hosts in SWITCHES.values() for host in hosts)
ADDRESSES = {host: f"10.9.0.{i + 1}" for i, host in enumerate(HOSTS)}
RATE = 100
"""Mbit/s of every link."""
START_SECONDS = 60.0
MUNGE = "/run/munge"

SSHD = """\
HostKey {root}/ssh/host
AuthorizedKeysFile {root}/ssh/user.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 100
AcceptEnv *
"""
SSH = """\
Host *
  IdentityFile {root}/ssh/user
  UserKnownHostsFile {root}/ssh/known_hosts
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
"""
SLURM = """\
ClusterName=stand
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
StateSaveLocation={root}/slurm/state
SlurmdSpoolDir={root}/slurm/spool-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={root}/slurm/slurmctld.log
SlurmdLogFile={root}/slurm/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=3
SelectType=select/linear
TopologyPlugin=topology/tree
MpiDefault=none
NodeName=n[1-4] CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
CGROUP = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


class Unfit(Exception):
    """There can be no such cluster here; says why."""


def check_fit() -> None:
    """Raises Unfit where rights or packages are missing."""
    if os.geteuid() != 0:
        raise Unfit("real daemons take root")
    missing = [name for name in PROGRAMS if not shutil.which(name, path=_PATH)]
    if missing:
        raise Unfit(f"no {missing[0]}: real daemons take {', '.join(PACKAGES)}")
    trial = "ip link add s0 type bridge && ip link add p0 type veth peer name p1 && " + " ".join(
        _shaped("p0", RATE)
    )
    done = subprocess.run(
        ["unshare", "-nmuip", "--fork", "--mount-proc", "sh", "-c", trial],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Unfit(f"no hosts of namespaces here: {done.stderr.strip()}")


_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Stand:
    """A context in which the hosts are there; ``root`` is the directory of its files, which all
    hosts see."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hosts: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Stand:
        check_fit()
        try:
            self._write_files()
            for name in ("fabric", *HOSTS):
                self._start_host(name)
            self._connect()
            for host in HOSTS:
                self.run(
                    host, shutil.which("sshd", path=_PATH), "-f", f"{self.root}/ssh/sshd_config"
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._hosts.values():
            process.kill()  # process 1: all others of its host end with it
            process.wait()

    # ---- what is there -------------------------------------------------------------------------

    def _write_files(self) -> None:
        for name in ("ssh", "slurm/state", "files/etc/ssh"):
            (self.root / name).mkdir(parents=True)
        self.root.chmod(0o755)
        for key in ("host", "user"):
            words = ["-q", "-t", "ed25519", "-N", "", "-f", f"{self.root}/ssh/{key}"]
            subprocess.run(["ssh-keygen", *words], check=True)
        public = (self.root / "ssh/host.pub").read_text()
        self._write("ssh/known_hosts", "".join(f"{host} {public}" for host in HOSTS))
        self._write("ssh/sshd_config", SSHD.format(root=self.root))
        self._write("slurm/slurm.conf", SLURM.format(root=self.root))
        self._write("slurm/cgroup.conf", CGROUP)
        lines = [f"SwitchName={name} Nodes={','.join(h)}" for name, h in SWITCHES.items()]
        lines += [f"SwitchName=top Switches={','.join(SWITCHES)}", ""]
        self._write("slurm/topology.conf", "\n".join(lines))
        self._write("files/etc/ssh/ssh_config", SSH.format(root=self.root))
        addresses = [f"{address} {host}" for host, address in ADDRESSES.items()]
        self._write("files/etc/hosts", "\n".join(["127.0.0.1 localhost", *addresses, ""]))
        self._write("files/etc/shadow", Path("/etc/shadow").read_text()).chmod(0o600)
        (self.root / "munge.key").write_bytes(os.urandom(64))

    def _write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.write_text(text)
        return path

    def _start_host(self, name: str) -> None:
        program = Path(__file__).with_name("host.py")
        argv = ["unshare", "-nmuip", "--fork", "--mount-proc", "--kill-child", sys.executable]
        process = subprocess.Popen(
            [*argv, str(program), name, str(self.root / "files")], stdout=subprocess.PIPE, text=True
        )
        self._hosts[name] = process
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise Unfit(f"{name} does not start")

    def _first(self, name: str) -> int:
        """The process 1 of a host, as this process numbers it."""
        parent = self._hosts[name].pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

    def _connect(self) -> None:
        """Two bridges, a trunk, and a port for each host, all at RATE."""
        self.fabric("ip", "link", "add", "t1", "type", "veth", "peer", "name", "t2")
        for i, (switch, hosts) in enumerate(SWITCHES.items()):
            self.fabric("ip", "link", "add", switch, "type", "bridge")
            self.fabric("ip", "link", "set", switch, "up")
            self._plug(f"t{i + 1}", switch)
            for host in hosts:
                first = str(self._first(host))
                words = ["type", "veth", "peer", "name", "eth0", "netns", first]
                self.fabric("ip", "link", "add", host, *words)
                self._plug(host, switch)
                self.run(host, "ip", "address", "add", f"{ADDRESSES[host]}/24", "dev", "eth0")
                self.run(host, "ip", "link", "set", "eth0", "up")
                self.run(host, *_shaped("eth0", RATE))

    def _plug(self, port: str, switch: str) -> None:
        self.fabric("ip", "link", "set", port, "master", switch)
        self.fabric("ip", "link", "set", port, "up")
        self.fabric(*_shaped(port, RATE))

    # ---- what one does with it -----------------------------------------------------------------

    def fabric(self, *argv: str) -> None:
        """Run a command where the switches are."""
        first = str(self._first("fabric"))
        subprocess.run(["nsenter", "-t", first, "-n", *argv], check=True)

    def run(
        self,
        host: str,
        *argv: str,
        cwd: Path | None = None,
        settings: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host; with ``check`` it must succeed."""
        process = self.start(host, *argv, cwd=cwd, settings=settings)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise AssertionError(
                f"{argv} on {host} takes more than {timeout:.0f} s:\n{out}"
            ) from None
        done = subprocess.CompletedProcess(argv, process.returncode, out)
        assert not check or done.returncode == 0, f"{argv} on {host}: {done.returncode}\n{out}"
        return done

    def start(
        self,
        host: str,
        *argv: str,
        cwd: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """The same, and do not wait; output and errors go to one pipe."""
        words = {
            "PATH": _PATH,
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            "SLURM_CONF": f"{self.root}/slurm/slurm.conf",
            **(settings or {}),
        }
        enter = ["nsenter", "-t", str(self._first(host)), "-m", "-u", "-i", "-n", "-p"]
        return subprocess.Popen(
            [*enter, "env", "-C", str(cwd or self.root), *argv],
            env=words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def processes(self, host: str, word: str) -> list[str]:
        """The command lines on a host that have a word in them."""
        done = self.run(host, "ps", "-eo", "args")
        return [line for line in done.stdout.splitlines() if word in line]

    def cut(self, host: str) -> None:
        """Pull a host's cable."""
        self.fabric("ip", "link", "set", host, "down")

    def mend(self, host: str) -> None:
        """Plug it in again."""
        self.fabric("ip", "link", "set", host, "up")

    def rate(self, host: str, rate: int) -> None:
        """Let a host's cable have so many Mbit/s, both ways."""
        self.fabric(*_shaped(host, rate))
        self.run(host, *_shaped("eth0", rate))

    def start_slurm(self) -> None:
        """munge and Slurm on every host, with its controller on the first."""
        for host in HOSTS:
            self._munge(host)
        self.run(HOSTS[0], "slurmctld")
        for host in HOSTS:
            self.run(host, "slurmd", "-N", host)
        self.wait_until_idle(HOSTS)

    def _munge(self, host: str) -> None:
        """Its files are the host's own: munged trusts no directory that others may write to."""
        owner = ["-o", "munge", "-g", "munge", "-m", "600"]
        self.run(host, "install", *owner, str(self.root / "munge.key"), f"{MUNGE}/key")
        words = [f"--{name}-file={MUNGE}/{name}" for name in ("key", "log", "seed", "pid")]
        user = ["setpriv", "--reuid=munge", "--regid=munge", "--clear-groups"]
        self.run(host, *user, "munged", *words)

    def wait_until_idle(self, hosts: Sequence[str]) -> None:
        """Until Slurm has nothing on these hosts, and all of them may be used."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            words = ["sinfo", "-h", "-N", "-o", "%n %T", "-n", ",".join(hosts)]
            lines = self.run(HOSTS[0], *words, check=False).stdout.splitlines()
            if len(lines) == len(hosts) and all(line.endswith(" idle") for line in lines):
                return
            time.sleep(0.5)
        raise AssertionError(f"Slurm's hosts are not idle: {lines}")


def _shaped(port: str, rate: int) -> list[str]:
    words = f"tc qdisc replace dev {port} root tbf rate {rate}mbit burst 16kb limit 128kb"
    return words.split()
