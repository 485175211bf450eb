import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.catalogue.algorithm import Variant
from search.catalogue.catalogue import Catalogue
from search.cluster.topology_file import parse_conf
from search.decide.decision import Cutoff, Decision, DecisionTable, Origin, hashed_tree
from search.emit.c_text import comment, literal, symbol
from search.emit.emission import emit_c, emit_h
from search.errors import UserError
from search.toolchain import TEMPLATES

from .conftest import ROOT
from .golden import pages


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_what_is_generated_is_the_golden_one(path):
    """After a wanted change: make golden, and read the difference."""
    assert pages()[path] == path.read_text()


def test_emission_is_reproducible(catalogue, generic):
    again = Catalogue(TEMPLATES / "alltoall")
    assert emit_c(generic, catalogue, TEMPLATES, True) == emit_c(generic, again, TEMPLATES, True)


def test_bodies_are_the_same_bytes_wherever_they_stand(catalogue, generic):
    shipped, measured = (emit_c(generic, catalogue, TEMPLATES, every) for every in (False, True))
    for name in ("atall_ring_none", "atall_bruck", "atall_simple_scattered"):
        start = shipped.index(f"static int {name}(")
        body = shipped[start : shipped.index("\n}\n", start)]
        assert body in measured


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("every", [False, True])
def test_no_warning_whoever_compiles(catalogue, beside, generic, tools, tmp_path, compiler, every):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    others = beside if every else []
    text = emit_c(generic, catalogue, TEMPLATES, every, beside=others)
    (tmp_path / "alltoall.c").write_text(text)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    for standard in ("c11", "c17"):
        tools.run(
            [
                tools.mpicc,
                f"-cc={compiler}",
                f"-std={standard}",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-O2",
                "-c",
                str(tmp_path / "alltoall.c"),
                "-o",
                str(tmp_path / "alltoall.o"),
            ],
            "compiling",
        )


def test_each_variant_alone_compiles_without_unused_helpers(catalogue, tools, tmp_path):
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    alone = [
        Variant(body, tuple((n.name, n.values(8)[0]) for n in body.numbers))
        for body in catalogue.bodies()
    ]
    for variant in [*alone, catalogue.variant("ring(sync=none,leaders=2)")]:
        native = catalogue.variant("native")
        tables = (
            DecisionTable(8, (Cutoff(None, variant, ""),)),
            DecisionTable(8, (Cutoff(None, native, ""),)),
        )
        (tmp_path / "alltoall.c").write_text(emit_c(Decision(tables), catalogue, TEMPLATES))
        tools.run(
            [
                tools.mpicc,
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-c",
                str(tmp_path / "alltoall.c"),
                "-o",
                str(tmp_path / "alltoall.o"),
            ],
            f"compiling {variant.label}",
        )


def test_emitted_c_and_our_own_are_formatted(catalogue, beside, generic, tmp_path):
    (tmp_path / ".clang-format").write_text((ROOT / ".clang-format").read_text())
    tree = hashed_tree(parse_conf("SwitchName=s Nodes=a,b,c", "here"))
    every = emit_c(replace(generic, tree=tree), catalogue, TEMPLATES, True, beside=beside)
    (tmp_path / "all.c").write_text(every)
    for path, text in pages().items():
        if path.suffix == ".c":
            (tmp_path / path.name).write_text(text)
    ours = [*ROOT.glob("probes/**/*.[ch]"), *ROOT.glob("tests/*.c"), *ROOT.glob("doc/examples/*.c")]
    done = subprocess.run(
        [
            Path(sys.executable).with_name("clang-format"),
            "--dry-run",
            "-Werror",
            *map(str, [*tmp_path.glob("*.c"), *ours]),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@given(st.text())
def test_no_text_escapes_from_a_comment(text):
    inside = str(comment(text))[2:-2]
    assert "*/" not in inside
    assert "/*" not in inside
    assert "??" not in inside
    assert all(" " <= c <= "~" or c == "\n" for c in inside)


@pytest.mark.parametrize("text", ["a b", "1a", "a;", "", "a\n", "é"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(UserError):
        symbol(text)


@pytest.mark.parametrize("text", ['a"', "a\\", "a\n", "??/", "é", "%n"])
def test_what_c_would_read_otherwise_is_no_literal(text):
    with pytest.raises(UserError):
        literal(text)


def test_a_plain_string_never_reaches_the_c(tmp_path, generic):
    """A template that prints a parameter as it is: refused, not rendered."""
    folder = tmp_path / "templates"
    shutil.copytree(TEMPLATES, folder)
    ring = folder / "alltoall" / "ring.c.j2"
    ring.write_text(ring.read_text() + "/* {{ sync }} */\n")
    with pytest.raises(UserError, match="not marked as C"):
        emit_c(generic, Catalogue(folder / "alltoall"), folder)


def test_hostile_text_in_a_decision_stays_a_comment(catalogue, tools, tmp_path):
    native = catalogue.variant("native")
    why = '*/ int main(void){} /* ??/\n "%n" {{7*7}} $(id)'
    decision = Decision(
        (DecisionTable(8, (Cutoff(None, native, why),)),),
        Origin(why, 8, hosts=("x",), fingerprint=why, noise=why, dilation=why),
    )
    text = emit_c(decision, catalogue, TEMPLATES)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    (tmp_path / "alltoall.c").write_text(text)
    tools.run(
        [
            tools.mpicc,
            "-std=c11",
            "-Wall",
            "-Werror",
            "-c",
            str(tmp_path / "alltoall.c"),
            "-o",
            str(tmp_path / "a.o"),
        ],
        "compiling",
    )
    assert "main" not in tools.run(["nm", str(tmp_path / "a.o")], "nm")


@pytest.mark.parametrize(
    "label", ["phased(sync=sender,segment=0,depth=2)", "ring(sync=none,leaders=1)"]
)
def test_a_rival_brings_what_it_needs(generic, catalogue, tools, tmp_path, label):
    """No row of the file has a tree, or leaders: a bench may want one that does."""
    rival = catalogue.variant(label)
    (tmp_path / "alltoall.h").write_text(emit_h(TEMPLATES))
    text = emit_c(generic, catalogue, TEMPLATES, also=[rival])
    assert f"static int {rival.body.symbol}(" in text
    (tmp_path / "alltoall.c").write_text(text)
    output = str(tmp_path / "alltoall.o")
    tools.run([tools.mpicc, "-c", str(tmp_path / "alltoall.c"), "-o", output], "a rival")
