"""Dry runs (dry_run.c): what each body sends, without a network."""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict, namedtuple
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from search.catalogue.algorithm import Variant
from search.catalogue.catalogue import Catalogue
from search.cli.workplace import GENERIC
from search.cluster.topology_file import parse_conf
from search.decide.decision import hashed_tree
from search.decide.decision_file import read_decision
from search.emit.emission import emit_c, emit_h
from search.toolchain import TEMPLATES, Toolchain

TESTS = Path(__file__).resolve().parent
BLOCK = 1000
TRACED = range(2, 17)
"""Numbers of ranks."""
Counted = namedtuple(
    "Counted", "sent sent_bytes received received_bytes both both_bytes tokens barriers trace"
)


def build_dry_run(tools: Toolchain, catalogue: Catalogue, folder: Path) -> Path:
    """The program, with all bodies."""
    tree = hashed_tree(parse_conf("SwitchName=s0 Nodes=h[0-3] LinkSpeed=1", "here"))
    decision = replace(read_decision(GENERIC, catalogue), tree=tree)
    (folder / "subject.c").write_text(emit_c(decision, catalogue, TEMPLATES, all_bodies=True))
    (folder / "alltoall.h").write_text(emit_h(TEMPLATES))
    program = folder / "dry_run"
    sources = ["-g", f"-I{folder}", '-DATALL_SOURCE="subject.c"', str(TESTS / "dry_run.c")]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    tools.run([tools.mpicc, *sanitizers, *sources, "-o", str(program)], "compiling")
    return program


def dry_run(program: Path, ranks: int, variants: Sequence[Variant]) -> list[Counted]:
    """What variants send on so many ranks, BLOCK bytes to each peer."""
    done = subprocess.run(
        [program, str(ranks), str(BLOCK), *(v.label for v in variants)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode == 0, done.stderr
    lines = map(str.split, done.stdout.splitlines())
    return [Counted(*map(int, words[:-1]), words[-1]) for words in lines]


def sending(catalogue: Catalogue, ranks: int) -> list[Variant]:
    """The variants whose messages can be seen."""
    every = catalogue.variants(ranks, legacy=True)
    return [variant for variant in every if variant.body.algorithm.name != "native"]


def traces(program: Path, catalogue: Catalogue) -> str:
    """A line for each variant: a hash of all that it calls for messages on 2 to 16 ranks."""
    found = defaultdict(hashlib.sha256)
    for ranks in TRACED:
        variants = sending(catalogue, ranks)
        for variant, counted in zip(variants, dry_run(program, ranks, variants)):
            found[variant.label].update(f"{ranks} {counted.trace}\n".encode())
    return "".join(f"{label} {found[label].hexdigest()[:16]}\n" for label in sorted(found))
