"""generated/decision.toml: a decision as people read and change it (doc/formats.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomli_w

from search.catalogue.catalogue import Catalogue
from search.decide.decision import Cutoff, Decision, DecisionTable, Evidence, Origin, TreeNode
from search.errors import UserError
from search.files import write_whole
from search.toml import load_toml

SCHEMA = 2
HEADER = """\
# Which variant serves which block. Rows may be changed by hand: then run "make emit".
# most = the largest block (bytes to each peer) of a row; the last row of a table has none.

"""

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_HostHash = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{1,16}$")]


class _Form(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What stands in the file: what is usual does not, and nothing else does."""


class _Row(_Form):
    variant: str
    most: _Count | None = None
    why: str = ""
    evidence: Evidence | None = None


class _Table(_Form):
    ranks: _Count
    row: tuple[_Row, ...]
    hosts: _Count = 0
    each: _Count = 0
    load: float | None = None
    placement: str = ""


class _Node(_Form):
    parent: int
    speed: int
    host: _HostHash = "0"


class _File(_Form):
    schema: int
    table: tuple[_Table, ...]
    tuned: Origin | None = None
    tree: tuple[_Node, ...] = ()


def read_decision(path: Path, catalogue: Catalogue) -> Decision:
    """Read and check a decision file; UserError says what is wrong and where."""
    content = load_toml(path)
    if content.get("schema") != SCHEMA:
        raise UserError(
            f"{path}: schema = {SCHEMA} is expected: 'make decide emit' writes the file anew"
        )
    try:
        form = msgspec.convert(content, _File)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}: doc/formats.md shows a whole one") from error
    tables = tuple(
        DecisionTable(
            table.ranks,
            tuple(
                Cutoff(row.most, catalogue.variant(row.variant), row.why, row.evidence)
                for row in table.row
            ),
            table.hosts,
            table.each,
            table.load or 0.0,
            table.placement,
        )
        for table in form.table
    )
    tree = tuple(TreeNode(node.parent, node.speed, int(node.host, 16)) for node in form.tree)
    decision = Decision(tables, form.tuned, tree)
    decision.check(str(path))
    return decision


def write_decision(path: Path, decision: Decision) -> None:
    """Write a decision file that ``read_decision`` reads back."""
    tables = tuple(
        _Table(
            table.ranks,
            tuple(
                _Row(row.variant.label, row.most, row.said, row.evidence) for row in table.cutoffs
            ),
            table.hosts,
            table.each,
            table.load or None,
            table.placement,
        )
        for table in decision.tables
    )
    tree = tuple(
        _Node(node.parent, node.speed, f"{node.host:016x}" if node.host else "0")
        for node in decision.tree
    )
    form = _File(SCHEMA, tables, decision.tuned, tree)
    write_whole(path, HEADER + tomli_w.dumps(_rounded(msgspec.to_builtins(form))))


def _rounded(value: Any) -> Any:
    """Floats to what they can tell."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
