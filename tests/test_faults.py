"""Variants that are wrong or hang are excluded, and the search goes on."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from search import toolchain
from search.cli import options, workplace
from search.cli.verbs import configure as verb
from search.cluster.site import Site
from search.errors import Interrupted
from search.timeouts import Timeouts
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .test_configure import gone

BROKEN = """\
{{#
name = "{name}"
title = "broken"
cite = "none"
cost = "p"
#}}
/* Broken. */
static int {{{{ symbol }}}}(const struct atall_call *call)
{{
{body}
}}
"""
WRONG = "    (void)call;\n    return MPI_SUCCESS;"
HANGS = (
    "    return PMPI_Recv(call->recvbuf, 1, MPI_BYTE, call->rank, 77, call->comm, "
    "MPI_STATUS_IGNORE);"
)
DIES = "    abort();\n    return call->rank;"


@pytest.fixture
def broken(monkeypatch, tmp_path, tools):
    """A build directory whose catalogue has broken algorithms."""
    folder = tmp_path / "templates"
    shutil.copytree(TEMPLATES, folder)
    for name, body in (("wrong", WRONG), ("hangs", HANGS), ("dies", DIES)):
        (folder / "alltoall" / f"{name}.c.j2").write_text(BROKEN.format(name=name, body=body))
    monkeypatch.setattr(options, "TEMPLATES", folder)
    monkeypatch.setattr(workplace, "TEMPLATES", folder)
    monkeypatch.setattr(toolchain, "TEMPLATES", folder)
    monkeypatch.setattr(verb, "Site", partial(Site, timeouts=Timeouts(visit=2.0)))
    (tmp_path / "config.mk").write_text(
        f"MPICC = {tools.mpicc}\nMPIEXEC = {tools.mpiexec}\nCFLAGS = \n"
    )
    return tmp_path


def configure(place: Path, *words: str) -> None:
    options.parse_and_run(["configure", "--np=2", "--sizes=64", *words], place)


def test_broken_variants_are_set_aside(broken, capsys):
    configure(broken, "--effort=quick", "--only=wrong,hangs,dies,bruck")
    said = capsys.readouterr().out
    for name, reason in (
        ("wrong", "wrong data"),
        ("hangs", "no answer before the deadline"),
        ("dies", "the job ended"),
    ):
        line = next(x for x in said.splitlines() if f"{name} is excluded" in x)
        assert reason in line
    text = (broken / "generated" / "alltoall.c").read_text()
    assert not [name for name in ("wrong", "hangs", "dies") if f"atall_{name}" in text]
    assert gone(str(broken / "build" / "measure"))
    configure(broken, "--effort=quick", "--only=wrong,hangs,dies,bruck")
    assert "excluded" not in capsys.readouterr().out  # recorded: not tried again


def test_a_time_limit_ends_the_search_with_the_best_so_far(broken, capsys):
    """Or, where this machine did not get so far, with what there is without it."""
    try:
        configure(broken, "--only=ring,bruck,simple", "--time-limit=6", "--sizes=1,16M,32M")
    except Interrupted as error:
        assert "before anything was timed: generated/alltoall.c is untuned" in str(error)
    assert "the time limit came first" in capsys.readouterr().out
    assert (broken / "generated" / "alltoall.c").exists()


def test_the_sources_name_no_private_place():
    for path in [*ROOT.glob("templates/**/*.j2"), *ROOT.glob("search/*.py")]:
        assert "/work/" not in path.read_text()
