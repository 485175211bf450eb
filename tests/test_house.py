"""What the layout of search/ promises."""

from importlinter.cli import lint_imports

from search.toolchain import measured_sources

from .conftest import ROOT


def test_each_layer_knows_only_those_below_it(monkeypatch, capsys):
    """pyproject.toml has the layers."""
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


def test_a_man_page_makes_no_journal_stale():
    measured = {path.relative_to(ROOT).parts[:2] for path in measured_sources()}
    assert ("templates", "install") not in measured
    assert {("templates", "alltoall"), ("probes", "measure.c")} <= measured
