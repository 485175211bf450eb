"""What the layout of search/ promises."""

import re

from importlinter.cli import lint_imports

from search.catalogue.catalogue import every_catalogue
from search.cluster.backends import BACKENDS, LAUNCHERS
from search.toolchain import TEMPLATES, measured_sources

from .conftest import ROOT


def test_each_layer_knows_only_those_below_it(monkeypatch, capsys):
    """pyproject.toml has the layers."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


def test_a_man_page_makes_no_journal_stale():
    measured = {path.relative_to(ROOT).parts[:2] for path in measured_sources()}
    assert ("templates", "install") not in measured
    assert {("templates", "alltoall"), ("probes", "measure.c")} <= measured


APART = {"doubling"}
"""Algorithms whose names are words for something else, too: a walk."""
BARRIERS = {"ring", "tournament"}


def test_nothing_is_named_outside_its_own_file(catalogue):
    """Collectives, algorithms, kinds of cluster and launchers are found; 'native' is the reference,
    and one collective is tuned unless another is named."""
    every = every_catalogue(TEMPLATES)
    names = {algorithm.name for one in every for algorithm in one.algorithms} - {"native"} - APART
    names |= {one.collective.name for one in every}
    for path in (ROOT / "search").rglob("*.py"):
        where = path.relative_to(ROOT / "search").as_posix()
        if where.startswith("cluster/backends/") or where == "catalogue/collective.py":
            continue
        theirs = {*BACKENDS, *LAUNCHERS} if not where.startswith("cluster/") else set()
        words = set(re.findall(r"""["']([a-z_]+)(?:\(|["'])""", path.read_text()))
        allowed = BARRIERS if where == "measure/messages.py" else set()  # the library's, and ours
        assert words & (names | theirs) <= allowed, where
