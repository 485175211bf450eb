"""What each host has: looked at before its first job, and for the fingerprint."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from search.errors import EnvironmentFailure, HostsFailed

MISSING = "missing"
TCP_SETTINGS = ("tcp_rmem", "tcp_wmem", "tcp_sack")
FACTS = ("kernel", "tcp_congestion_control", *TCP_SETTINGS)
"""What measurements depend on, and may differ from host to host."""
SCRIPT = "; ".join(  # in one line, since a login shell such as csh ends words at a newline
    (
        "p={program}",
        """sum() {{ cksum <"$1" | tr ' ' :; }}""",
        """[ -d "${{p%/*}}" ] || {{ echo program={missing} directory={missing}; exit 0; }}""",
        """[ -x "$p" ] || {{ echo program={missing}; exit 0; }}""",
        "LD_LIBRARY_PATH={path}; export LD_LIBRARY_PATH",
        r"""l=$(ldd "$p" 2>&1 | sed -n 's|^.*libmpi[.-][^ ]* => \(/[^ ]*\).*|\1|p' | head -n 1)""",
        """printf 'program=%s library=%s at=%s' "$(sum "$p")" "$([ -z "$l" ] || sum "$l")" "$l" """,
        """printf ' kernel=%s' "$(uname -r)" """,
        """for n in {sysctls}; do printf ' %s=%s' "$n" "$(tr -s '\t ' ,, <{proc}/"$n")"; done""",
    )
)

Inventory = Mapping[str, Mapping[str, str]]
"""Of each host, in rank order, the FACTS."""


Query = Callable[[str], Mapping[str, str]]
"""Runs shell words on every host that can be asked: what they write there, in one line."""


def take_inventory(query: Query, program: Path) -> Inventory:
    """Look at all hosts, where jobs run ``program``; without those that do not say.

    Raises HostsFailed for those that have not this program, EnvironmentFailure for those that have
    another MPI library than the first.
    """
    script = SCRIPT.format(
        program=shlex.quote(str(program)),
        path=shlex.quote(os.environ.get("LD_LIBRARY_PATH", "")),
        missing=MISSING,
        sysctls=" ".join(name for name in FACTS if name.startswith("tcp")),
        proc="/proc/sys/net/ipv4",
    )
    command = shlex.join(["sh", "-c", script])
    found = {host: _fields(text) for host, text in query(command).items()}
    if not found:
        return {}
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    check(found, program, _fields(done.stdout))
    return {
        host: {key: mine.get(key, "").replace(",", " ") for key in FACTS}
        for host, mine in found.items()
        if mine
    }


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", text))


def check(found: Inventory, program: Path, here: Mapping[str, str]) -> None:
    """See that all hosts can run the job: ``found`` has what each says of its ``program``, ``here``
    what this one does."""
    wanted = here.get("program")
    bad = tuple(h for h, mine in found.items() if mine.get("program", wanted) != wanted and wanted)
    for host in bad:
        mine = found[host]
        if mine.get("directory") == MISSING:
            why = f"there is no directory {program.parent}"
        elif mine.get("program") == MISSING:
            why = f"there is no program {program}"
        else:
            why = f"{program} is another program than here"
        raise HostsFailed(
            f"host {host}: {why}: all hosts need this directory as it is here (a shared file "
            "system, or a copy), or --allow-shrink",
            bad,
        )
    first = next(iter(found), "")
    for host, mine in found.items():
        libraries = [one.get("library", "") for one in (found[first], mine)]
        if all(libraries) and libraries[0] != libraries[1]:
            raise EnvironmentFailure(
                f"host {host} has another MPI library ({mine['at']}) than {first} "
                f"({found[first]['at']}): install the same on all hosts"
            )


def differences(inventory: Inventory) -> list[str]:
    """What is not the same on all hosts, one line each."""
    lines = []
    for key in FACTS:
        values: dict[str, list[str]] = {}
        for host, mine in inventory.items():
            values.setdefault(mine[key], []).append(host)
        if len(values) > 1:
            several = sorted(values.items(), key=lambda item: len(item[1]))
            words = [f"{value or 'nothing'} on {_few(hosts)}" for value, hosts in several]
            lines.append(f"hosts differ in {key}: {', '.join(words)}")
    return lines


def _few(hosts: list[str]) -> str:
    """One host by name, of more how many there are."""
    return hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"


def fact(inventory: Inventory, key: str) -> object:
    """One of the FACTS: its value if that is the same everywhere, else those of all hosts."""
    values = [mine[key] for mine in inventory.values()]
    return values[0] if len(set(values)) == 1 else values


TELLING = 100_000
"""Bytes that show on which interface messages go."""
Traffic = Mapping[str, Mapping[str, int]]
"""Of each host, the bytes that its interfaces have carried so far, both ways."""


def count_traffic(query: Query) -> Traffic:
    """Ask all hosts; nothing of those that do not say."""
    answers = query("tr '\\n' ';' </proc/net/dev")
    return {host: _bytes_of(text) for host, text in answers.items()}


def _bytes_of(text: str) -> dict[str, int]:
    """What /proc/net/dev says: received bytes are the first of a line's numbers, sent ones the
    ninth."""
    found = {}
    for name, numbers in re.findall(r"(\S+):((?:\s+\d+){9})", text):
        if name != "lo":
            words = numbers.split()
            found[name] = int(words[0]) + int(words[8])
    return found


def carriers(before: Traffic, after: Traffic) -> str:
    """Which interface carried the messages between two counts, host by host if they differ; nothing
    where few were."""
    hosts: dict[str, list[str]] = {}
    for host, mine in after.items():
        carried = {name: count - before.get(host, {}).get(name, 0) for name, count in mine.items()}
        name = max(carried, key=lambda n: carried[n], default="")
        if name and carried[name] >= TELLING:
            hosts.setdefault(name, []).append(host)
    if len(hosts) == 1:
        return f"messages go over {next(iter(hosts))}"
    several = sorted(hosts.items(), key=lambda item: len(item[1]))
    return ", ".join(f"messages go over {name} on {_few(on)}" for name, on in several)
