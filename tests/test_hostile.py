"""Hostile strings wherever strings come in: none is executed, none reaches a command line or C."""

import json
import os
import re
import shutil
import subprocess

import pytest

from search.catalogue.catalogue import Catalogue
from search.cli.configured import make_cluster
from search.cli.options import parser
from search.cluster.backends import backend_of
from search.cluster.backends.ssh import SSH
from search.cluster.emulation import ENTER
from search.cluster.hostfile import read_hostfile
from search.cluster.hydra import hostfile_text
from search.cluster.placement import ranks_at
from search.decide.decision import Cutoff, Decision, DecisionTable
from search.emit.emission import emit_c, emit_h
from search.errors import AtallError
from search.strategy.profile import read_profile
from search.toolchain import TEMPLATES, Toolchain

from .test_configure import configure

PAYLOADS = [
    "-oProxyCommand=touch CANARY", "--", "-", "$(touch CANARY)", "`touch CANARY`", "; touch CANARY",
    "| touch CANARY", "&touch CANARY&", ">CANARY", "\ntouch CANARY\n", "$(shell touch CANARY)",
    "\0", "*/", "??/", "%n%s", "{{7*7}}", "{% include 'x' %}", "{#", "#}", "../../etc/passwd",
    "n[0-999999999]", "'", '"', "\\", "\r", "\t", "\x1b[31m", "\u202e", "é", "\ud7ff", "A" * 5000,
]  # fmt: skip
AROUND = ["{}", "n0{}", "{}n0", "n0,{}", "n[{}]", "n[0-1]{}", "{}:4"]
HOSTILE = [around.format(payload) for payload in PAYLOADS for around in AROUND]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
TOOLS = Toolchain("mpicc", "mpiexec", ())
SWITCHES = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - "


def options(*words):
    return parser().parse_args(["configure", *words])


def from_hostfile(text, place):
    (place / "hosts").write_bytes(f"{text}\nn9\n".encode())
    read_hostfile(place / "hosts")
    return make_cluster(options(f"--hostfile={place}/hosts"), {})[0]


def from_topology(text, place):
    for line in (f"SwitchName={text}", "SwitchName=s Nodes=m", "SwitchName=s LinkSpeed=10"):
        (place / "tree.conf").write_bytes(f"{line}{text}\n".encode())
        cluster = make_cluster(options(f"--emulate={place}/tree.conf"), {})
    return cluster


def from_yaml(text, place):
    switch = json.dumps({"switch": "s", "nodes": text, "link_speed": 10})
    (place / "tree.yaml").write_text(f"{SWITCHES}{switch}\n")
    return make_cluster(options(f"--emulate={place}/tree.yaml"), {})[0]


def from_slurm(text, place):
    """Both what salloc sets, and what hosts say of their switches."""
    (place / "addresses").write_bytes(text.encode())
    environment = {"SLURM_JOB_NODELIST": text}
    return make_cluster(options("--launcher=srun"), environment)[0]


def from_slurm_tasks(text, place):
    environment = {"SLURM_JOB_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": text}
    return make_cluster(options("--launcher=srun"), environment)[0]


def from_slurm_addresses(text, place):
    (place / "addresses").write_bytes(f"s0.{text}\n".encode())
    environment = {"SLURM_JOB_NODELIST": "n0", "SLURM_TOPOLOGY_ADDR": "s0.n0"}
    return make_cluster(options("--launcher=srun"), environment)[0]


@pytest.mark.parametrize(
    "read",
    [from_hostfile, from_topology, from_yaml, from_slurm, from_slurm_tasks, from_slurm_addresses],
)
def test_only_plain_names_get_to_a_command_line(tmp_path, monkeypatch, read):
    srun = tmp_path / "srun"
    srun.write_text(f'#!/bin/sh\ncat "{tmp_path}/addresses"\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    accepted = 0
    for text in HOSTILE:
        (tmp_path / "addresses").write_text("")
        try:
            cluster = read(text, tmp_path)
        except AtallError as error:
            assert len(str(error)) < 500
            assert "\n" not in str(error)
            continue
        accepted += 1
        assert all(NAME.fullmatch(name) for name in [h.name for h in cluster.hosts])
        assert all(NAME.fullmatch(name) for name in cluster.topology.switches)
        assert re.fullmatch(r"([\w.-]+:\d+\n)+", hostfile_text(cluster), re.ASCII)
        backend = backend_of(cluster.backend)(cluster, TOOLS, tmp_path, print)
        backend.argv(tmp_path / "measure")
        for host in cluster.ranks_on():
            assert backend.reach(host) in ([], [*SSH, host], [ENTER, host])
    assert accepted < len(HOSTILE) / 2
    assert not list(tmp_path.glob("*CANARY*"))


OPTIONS = (
    "--np", "--grid", "--sizes", "--emulate-buffer", "--emulate-slots", "--time-limit",
    "--strategy",
    "--timing", "--effort", "--order", "--launcher",
)  # fmt: skip
OTHERS = (("timeline", "--block"), ("bench", "--launches"), ("bench", "--effort"))


def test_options_and_profiles(tmp_path, monkeypatch, catalogue):
    monkeypatch.chdir(tmp_path)
    for text in HOSTILE:
        if text == "--":  # which argparse takes away
            continue
        for option in OPTIONS:
            with pytest.raises(AtallError):
                options(f"{option}={text}")
        with pytest.raises(AtallError):
            ranks_at(text, [("n0", 4), ("n1", 4)])
        for verb, option in OTHERS:
            with pytest.raises(AtallError):
                parser().parse_args([verb, f"{option}={text}"])
        with pytest.raises(AtallError):
            catalogue.variants(4, options(f"--only={text}").only)
        with pytest.raises(AtallError):
            catalogue.variant(text)
        with pytest.raises(AtallError):
            (tmp_path / "profile").write_bytes(f"8 64 1 0.1 x\n8 {text} 1 0.1 x\n".encode())
            read_profile(tmp_path / "profile", 8)
    assert not list(tmp_path.glob("*CANARY*"))


FRONT = """\
{{#
name = "{name}"
title = {title}
cite = {cite}
cost = {cost}
{more}
#}}
/* Nothing. */
static int {{{{ symbol }}}}(const struct atall_call *call)
{{
    return call->rank;
}}
"""


def test_what_templates_say_of_themselves_stays_a_comment(tools, generic, tmp_path):
    folder = tmp_path / "templates"
    shutil.copytree(TEMPLATES, folder)
    texts = [text.replace("#}", "# }") for text in HOSTILE]  # which ends the front matter
    for number, text in enumerate(texts):
        quoted = json.dumps(text)
        front = FRONT.format(name=f"x{number}", title=quoted, cite=quoted, cost='"p"', more="")
        (folder / "alltoall" / f"x{number}.c.j2").write_text(front, encoding="utf-8")
    text = emit_c(generic, Catalogue(folder / "alltoall"), folder, all_bodies=True)
    (tmp_path / "all.c").write_text(text)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-trigraphs", "-fsyntax-only"]
    tools.run([tools.mpicc, *flags, str(tmp_path / "all.c")], "compiling")


@pytest.mark.parametrize(
    "field", ["name", "cost", "requires", "params", "values", "scratch", "fits", "shared"]
)
def test_what_templates_must_know_is_a_name_or_a_formula(catalogue, tmp_path, field):
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    folder = tmp_path / "templates" / "alltoall"
    for path in folder.glob("*.c.j2"):
        if not path.name.startswith("native"):
            path.unlink()
    native = Decision((DecisionTable(0, (Cutoff(None, catalogue.variant("native")),)),))
    for text in HOSTILE:
        quoted = json.dumps(text.replace("#}", "# }"))
        fields = {"name": "x", "title": '"x"', "cite": '"x"', "cost": '"p"', "more": ""}
        if field == "name":
            fields["name"] = text.replace("#}", "# }")
        elif field == "cost":
            fields["cost"] = quoted
        else:
            fields["more"] = {
                "requires": f"requires = [{quoted}]",
                "shared": f"shared = [{quoted}]",
                "scratch": f"scratch = {quoted}",
                "fits": f"fits = {quoted}",
                "params": f'[params.{quoted}]\nvalues = ["a"]\nabout = "x"',
                "values": f'[params.y]\nvalues = [{quoted}]\nabout = "x"',
            }[field]
        (folder / "x.c.j2").write_text(FRONT.format(**fields), encoding="utf-8")
        with pytest.raises(AtallError):
            known = Catalogue(folder)
            for variant in known.variants(4):
                variant.sent(4, 8)
            emit_c(native, known, folder.parent, all_bodies=True)
            pytest.fail(f"{text!r} is accepted")


@pytest.mark.parametrize(
    "formula", ["9**9**9**9", "(" * 5000, "1e308*10", "digits(p,1)", "x" * 9999]
)
def test_no_formula_takes_for_ever(tmp_path, formula):
    from search.catalogue.expression import evaluate

    with pytest.raises(AtallError):
        evaluate(formula, {"p": 4})


SHELL = [
    "$(shell touch CANARY)", "x\nCC=touch CANARY", "`touch CANARY`", "x; touch CANARY", "'",
    "$(touch CANARY)", "x | touch CANARY", "-o CANARY", "{{7*7}}", "%n", "-x", "", " ", "é",
    "a" * 5000,
]  # fmt: skip
VARIABLES = ("CFLAGS", "MPICC", "MPIEXEC", "PYTHON", "CC", "--prefix")
TOLD = [(variable, text) for text in SHELL for variable in VARIABLES]


@pytest.mark.parametrize(
    ("variable", "text"), [*TOLD[:2], *(pytest.param(*t, marks=pytest.mark.full) for t in TOLD[2:])]
)
def test_what_configure_and_make_are_told(tools, tmp_path, variable, text):
    """Not in config.mk either, of which make and its shell would make something."""
    where = {"env": {**os.environ, variable: text}} if variable == "CC" else {}
    words = [] if where else [f"{variable}={text}"]
    done = configure(tools, tmp_path, "--no-create", *words, **where)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 1
    if done.returncode == 0:
        make = ["make", "-n", "list", "build/alltoall.o", "install"]
        subprocess.run(make, cwd=tmp_path, capture_output=True, timeout=600, check=False)
        subprocess.run(
            [*make[:1], "list"], cwd=tmp_path, capture_output=True, timeout=600, check=False
        )
    else:
        assert done.returncode in (1, 2)
        assert done.stderr
    assert not list(tmp_path.rglob("*CANARY*"))
