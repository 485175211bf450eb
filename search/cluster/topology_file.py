"""Slurm's files of switches: topology.conf, and topology.yaml of newer versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from search.cluster.hostlist import check_name, expand
from search.cluster.hosts import Host
from search.cluster.topology import SwitchLine, Topology, build_tree, single_switch
from search.errors import UserError


def read_topology(path: Path) -> Topology:
    """Read a topology.conf or topology.yaml; UserError with file and line where it is no tree."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"cannot read topology file {path}: {reason}") from error
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    return parse_yaml(text, str(path)) if is_yaml else parse_conf(text, str(path))


def topology_of(path: str | None, hosts: Sequence[Host]) -> tuple[Topology, str]:
    """The tree of a file, else one switch; and where it came from, for people."""
    if path:
        return read_topology(Path(path)), path
    one = single_switch([host.name for host in hosts])
    return one, "one switch, since nothing says otherwise (--topology=FILE does)"


def parse_conf(text: str, source: str) -> Topology:
    """Parse topology.conf text; ``source`` names it in errors."""
    lines = [_parse_line(*pair) for pair in _logical_lines(text, source)]
    if not lines:
        raise UserError(
            f"{source}: no switch found: a line such as "
            "'SwitchName=s0 Nodes=n[0-3] LinkSpeed=1000' is expected"
        )
    return build_tree(lines, source)


def _logical_lines(text: str, source: str) -> Iterable[tuple[str, str]]:
    """Pairs of (place, line) without comments, continuation lines joined."""
    joined, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        start = start or number
        line = raw.split("#", 1)[0].rstrip()
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        joined += line
        if joined.strip():
            yield f"{source}:{start}", joined.strip()
        joined, start = "", 0
    if joined.strip():
        yield f"{source}:{start}", joined.strip()


def _parse_line(where: str, line: str) -> SwitchLine:
    values: dict[str, str] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        key = key.lower()
        if key not in ("switchname", "nodes", "switches", "linkspeed") or not equals or not value:
            raise UserError(
                f"{where}: {word[:80]!r} found where SwitchName=, Nodes=, Switches= "
                "or LinkSpeed= with a value is expected"
            )
        if key in values:
            raise UserError(f"{where}: {word[:80]!r} is given twice on one line")
        values[key] = value
    if "switchname" not in values:
        raise UserError(f"{where}: SwitchName= is expected on every line")
    return SwitchLine(
        where,
        check_name(values["switchname"], where),
        tuple(expand(values.get("nodes", ""), where)),
        tuple(expand(values.get("switches", ""), where)),
        _speed(values.get("linkspeed"), where),
    )


def _speed(text: str | None, where: str) -> float | None:
    if text is None:
        return None
    try:
        mbit = float(text)
    except ValueError:
        mbit = 0.0
    if not 0 < mbit < 1e9:
        raise UserError(f"{where}: LinkSpeed={text[:40]} is not a speed in Mbit/s")
    return mbit


_KEYS = {"switch", "children", "nodes", "link_speed"}
_EXPECTED = "a list with '- topology: NAME' and 'tree: {switches: [...]}' is expected"


def parse_yaml(text: str, source: str) -> Topology:
    """Parse topology.yaml text: its only tree, or the one that is the cluster's default.

    ``link_speed`` (Mbit/s) of a switch is an addition of ours, as LinkSpeed= in topology.conf.
    """
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UserError(f"{where}: not YAML: {problem}") from error
    if not isinstance(root, yaml.SequenceNode):
        raise UserError(f"{source}: {_EXPECTED}")
    trees = [entry for entry in map(_mapping(source), root.value) if "tree" in entry]
    if len(trees) > 1:
        trees = [entry for entry in trees if _text(entry.get("cluster_default")) == "true"]
    if len(trees) != 1:
        raise UserError(f"{source}: one tree, or one that has 'cluster_default: true': {_EXPECTED}")
    switches = _mapping(source)(trees[0]["tree"]).get("switches")
    if not isinstance(switches, yaml.SequenceNode) or not switches.value:
        raise UserError(f"{source}: 'tree' has no list of switches: {_EXPECTED}")
    return build_tree([_parse_switch(node, source) for node in switches.value], source)


def _mapping(source: str) -> Any:
    """A function that gives a YAML mapping as a dictionary of nodes by key."""

    def as_dictionary(node: Any) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise UserError(f"{source}:{node.start_mark.line + 1}: {_EXPECTED}")
        return {_text(key): value for key, value in node.value}

    return as_dictionary


def _text(node: Any) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _parse_switch(node: Any, source: str) -> SwitchLine:
    where = f"{source}:{node.start_mark.line + 1}"
    given = _mapping(source)(node)
    for key, value in given.items():
        if key not in _KEYS or not _text(value):
            raise UserError(
                f"{where}: {key[:40]!r} found where switch, children, nodes or link_speed "
                "with a value is expected"
            )
    if "switch" not in given:
        raise UserError(f"{where}: every switch needs a 'switch: NAME'")
    return SwitchLine(
        where,
        check_name(_text(given["switch"]), where),
        tuple(expand(_text(given.get("nodes")), where)),
        tuple(expand(_text(given.get("children")), where)),
        _speed(_text(given["link_speed"]) if "link_speed" in given else None, where),
    )
