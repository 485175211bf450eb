"""Inside the emulation: network namespaces as hosts, bridges as switches, veth as cables.

Run as PID 1 of fresh user, mount, network and PID namespaces (see emulation.py), so that
nothing of it outlives its process. Reads one JSON request on standard input:
``{"hosts": [...], "switches": [...], "links": [[upper, lower, mbit], ...], "buffer": bytes,
"dilation": times, "preload": path or null}``, builds the cluster, answers one JSON line, and stays
until standard input ends. Each further line, ``{"dilation": times}``, gives all links the speed
that they have at another dilation, and is answered, too.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any, Union

FOLDER = Path("/run/atall")
PRELOAD = FOLDER / "libblocking.so"
"""A copy: the loader splits LD_PRELOAD at blanks, which a build directory's name may have."""
INTERFACE = "e0"
CONGESTION_CONTROL = "cubic"
NIC_QUEUE = 1 << 20
"""Bytes a host queues itself: a network card does not drop what its own host sends."""
LEAST_TIMEOUT = 200
"""Milliseconds of TCP's shortest retransmission time-out, where time is not dilated."""
BURST = 4096
FRAME_OVERHEAD = 24
"""Preamble, checksum and gap: what a frame takes on the wire beside what tbf counts."""
MTU = 1500

SYSCTLS = {
    "net/ipv4/tcp_rmem": "4096 131072 6291456",
    "net/ipv4/tcp_wmem": "4096 16384 4194304",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_slow_start_after_idle": "1",
    "net/ipv4/tcp_sack": "1",
    "net/ipv4/tcp_timestamps": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv6/conf/all/disable_ipv6": "1",
}
"""Pinned in every host: the machine underneath may have been set up for something else."""

_CLONE_NEWNET, _CLONE_NEWUTS, _MS_BIND = 0x40000000, 0x04000000, 0x1000
_SIOCETHTOOL = 0x8946
_OFFLOADS_OFF = (0x1F, 0x24, 0x2C)  # ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO
_libc = ctypes.CDLL(None, use_errno=True)

ENTER = """\
#!/bin/sh
# enter [-option ...] HOST COMMAND: run COMMAND on an emulated host, as ssh would: not on one whose
# cable is out.
while :; do case $1 in -*) shift;; *) break;; esac; done
host=$1; shift
exec nsenter --net={folder}/net/$host --uts={folder}/uts/$host \\
  unshare --mount --propagation private \\
  sh -c 'mount -t sysfs sysfs /sys || exit 255
    read carrier </sys/class/net/{interface}/carrier && [ "$carrier" = 1 ] ||
      {{ echo "no route to host $(hostname)" >&2; exit 255; }}
    exec sh -c "$*"' sh "$@"
"""


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    _check(_libc.mount(source.encode(), str(target).encode(), kind and kind.encode(), flags, None))


def _bind(source: str, target: Path) -> None:
    target.touch()
    _mount(source, target, None, _MS_BIND)


def make_host(name: str) -> None:
    """Create the network and UTS namespaces of one host and keep them by bind mounts."""
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _check(_libc.unshare(_CLONE_NEWNET | _CLONE_NEWUTS))
            socket.sethostname(name)
            pin_sysctls()
            os.write(ready_write, b"+")
            os.close(done_write)
            os.read(done_read, 1)
        finally:
            os._exit(0)
    os.close(ready_write)
    if os.read(ready_read, 1) != b"+":
        raise OSError(f"host {name} could not be made")
    _bind(f"/proc/{child}/ns/net", FOLDER / "net" / name)
    _bind(f"/proc/{child}/ns/uts", FOLDER / "uts" / name)
    for fd in (ready_read, done_read, done_write):
        os.close(fd)
    os.waitpid(child, 0)


def pin_sysctls() -> None:
    """Set SYSCTLS in the network namespace of the calling process."""
    for key, value in SYSCTLS.items():
        path = Path("/proc/sys") / key
        if path.exists():
            path.write_text(value)


def offloads_off(interface: str) -> None:
    """No segmentation or receive offload: every frame is one that a wire would carry."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in _OFFLOADS_OFF:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(handle, _SIOCETHTOOL, request)


def shape(rtnl: Any, index: int, mbit: float, limit: int) -> None:
    """Give an interface the rate of the wire (Mbit/s, frame overhead counted) and a queue."""
    rtnl.tc("replace", "tbf", index, rate=int(mbit * 1e6 / 8), burst=BURST, limit=limit)


def count_frame_overhead() -> None:
    """Make pyroute2 pass tbf's overhead, which it drops otherwise."""
    from pyroute2.netlink.rtnl.tcmsg import sched_tbf

    plain = sched_tbf.get_parameters

    def with_overhead(kwarg: Any) -> Any:
        parameters = plain(kwarg)
        parameters["attrs"][0][1]["rate_overhead"] = FRAME_OVERHEAD
        parameters["attrs"][0][1]["rate_mpu"] = 64 + FRAME_OVERHEAD - 4
        return parameters

    sched_tbf.get_parameters = with_overhead


def address(number: int) -> str:
    """The address of the number-th host."""
    return f"10.{77 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def build(request: dict[str, Any]) -> list[Port]:
    """Build hosts, switches and cables as the request says; the ports of all cables."""
    from pyroute2 import IPRoute

    for part in ("net", "uts"):
        (FOLDER / part).mkdir(parents=True)
    if request["preload"]:
        shutil.copy(request["preload"], PRELOAD)
    enter = FOLDER / "enter"
    enter.write_text(ENTER.format(folder=FOLDER, interface=INTERFACE))
    enter.chmod(0o755)
    addresses = {host: address(number) for number, host in enumerate(request["hosts"], 1)}
    names = "".join(f"{where}\t{host}\n" for host, where in addresses.items())
    (FOLDER / "hosts").write_text("127.0.0.1\tlocalhost\n" + names)
    _mount(str(FOLDER / "hosts"), Path("/etc/hosts"), None, _MS_BIND)
    count_frame_overhead()
    pin_sysctls()
    for host in addresses:
        make_host(host)
    fabric = IPRoute()
    bridges = {name: make_switch(fabric, i) for i, name in enumerate(request["switches"])}
    ports: list[Port] = []
    for number, (upper, lower, mbit) in enumerate(request["links"]):
        ends = plug_cable(fabric, number)
        speed, buffer = mbit * request["dilation"], request["buffer"]
        ports.append(SwitchPort(fabric, ends[0], bridges[upper], speed, buffer))
        if lower in bridges:
            ports.append(SwitchPort(fabric, ends[1], bridges[lower], speed, buffer))
        else:
            ports.append(HostPort(fabric, ends[1], lower, addresses[lower], speed))
    for port in ports:
        port.shape(request["dilation"])
    return ports


def make_switch(fabric: Any, number: int) -> int:
    """Create a bridge that forwards at once and floods nothing but the unknown."""
    name = f"sw{number}"
    fabric.link(
        "add", ifname=name, kind="bridge", br_stp_state=0, br_forward_delay=0, br_mcast_snooping=0
    )
    index: int = fabric.link_lookup(ifname=name)[0]
    fabric.link("set", index=index, state="up")
    return index


def plug_cable(fabric: Any, number: int) -> tuple[str, str]:
    """Create a veth pair; the names of its ends."""
    ends = f"c{number}a", f"c{number}b"
    fabric.link("add", ifname=ends[0], kind="veth", peer={"ifname": ends[1]})
    for end in ends:
        offloads_off(end)
    return ends


class SwitchPort:
    """One end of a cable in a switch: what leaves it has the switch's buffer."""

    def __init__(self, fabric: Any, end: str, bridge: int, mbit: float, buffer: int) -> None:
        """``mbit`` is the speed where time is not dilated."""
        self.fabric, self.mbit, self.buffer = fabric, mbit, buffer
        self.index = fabric.link_lookup(ifname=end)[0]
        fabric.link("set", index=self.index, master=bridge, mtu=MTU, state="up")

    def shape(self, dilation: int) -> None:
        """Slow the port down so many times."""
        shape(self.fabric, self.index, self.mbit / dilation, self.buffer)


class HostPort:
    """The other end in a host, as its interface e0."""

    def __init__(self, fabric: Any, end: str, host: str, where: str, mbit: float) -> None:
        """``where`` is the host's address; ``mbit`` the speed where time is not dilated."""
        from pyroute2 import NetNS

        namespace = str(FOLDER / "net" / host)
        index = fabric.link_lookup(ifname=end)[0]
        with open(namespace, encoding="ascii") as handle:
            fabric.link("set", index=index, ifname=INTERFACE, net_ns_fd=handle.fileno())
        self.inside = NetNS(namespace, flags=0)
        self.where, self.mbit = where, mbit
        self.index = self.inside.link_lookup(ifname=INTERFACE)[0]
        self.inside.link("set", index=self.inside.link_lookup(ifname="lo")[0], state="up")
        self.inside.addr("add", index=self.index, address=where, prefixlen=8)
        self.inside.link("set", index=self.index, mtu=MTU, state="up")

    def shape(self, dilation: int) -> None:
        """Slow the port down so many times, and TCP's time-outs with it."""
        self.inside.route(
            "replace",
            dst="10.0.0.0/8",
            oif=self.index,
            prefsrc=self.where,
            scope="link",
            proto="kernel",
            metrics={"cc_algo": CONGESTION_CONTROL, "rto_min": LEAST_TIMEOUT * dilation},
        )
        shape(self.inside, self.index, self.mbit / dilation, NIC_QUEUE)


Port = Union[SwitchPort, HostPort]


def main() -> int:
    """Build what standard input asks for, say so, and stay until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the driver decides when this ends
    try:
        _mount("tmpfs", Path("/run"), "tmpfs", 0)
        ports = build(json.loads(sys.stdin.readline()))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # PID 1 inherits orphans: let none linger
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            for port in ports:
                port.shape(json.loads(line)["dilation"])
            print(json.dumps({"ready": True}), flush=True)
    except Exception as error:  # whatever it was: the driver shows it in one line
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
