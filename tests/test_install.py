"""make install, installcheck and uninstall, below a DESTDIR."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT


def make(place, *words, **variables):
    return subprocess.run(
        ["make", *words, *(f"{key}={value}" for key, value in variables.items())],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )


@pytest.fixture(scope="module")
def place(tools, tmp_path_factory):
    """A build directory where --generic was configured."""
    folder = tmp_path_factory.mktemp("install build")
    subprocess.run(
        [
            str(ROOT / "configure"),
            "--generic",
            "--quiet",
            "--prefix=/opt/atall",
            f"PYTHON={sys.executable}",
            f"MPICC={tools.mpicc}",
            f"MPIEXEC={tools.mpiexec}",
        ],
        cwd=folder,
        check=True,
    )
    return folder


def test_install_try_out_uninstall(place, tmp_path):
    stage = tmp_path / "stage"
    done = make(place, "install", DESTDIR=stage)
    assert done.returncode == 0, done.stderr
    top = stage / "opt" / "atall"
    for name in (
        "include/atall.h",
        "lib/libatall.a",
        "lib/libatall.so",
        "lib/pkgconfig/atall.pc",
        "lib/cmake/ATALL/ATALLConfig.cmake",
        "share/atall/alltoall.c",
        "share/atall/decision.toml",
        "share/atall/modulefiles/atall.lua",
        "share/man/man7/atall.7",
    ):
        assert (top / name).exists(), name
    for path in top.rglob("*"):
        if path.is_file() and path.suffix in (".pc", ".cmake", ".lua", ".7", ".1"):
            assert str(stage) not in path.read_text(), path
    said = subprocess.run(
        [str(top / "bin" / "atall-info"), str(top / "lib" / "libatall.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.startswith("not tuned: published cut-offs\ntable for all numbers of ranks:\n")
    assert "to 256 bytes: bruck(radix=2)" in said
    if shutil.which("pkg-config") and shutil.which("cmake"):
        done = make(place, "installcheck", DESTDIR=stage)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "by-pkg-config" in done.stdout
    done = make(place, "uninstall", DESTDIR=stage)
    assert done.returncode == 0, done.stderr
    assert not [path for path in top.rglob("*") if path.is_file() or path.is_symlink()]


def test_a_file_without_it_is_said_to_have_none(place, tmp_path):
    done = make(place, "install", DESTDIR=tmp_path)
    assert done.returncode == 0, done.stderr
    info = tmp_path / "opt" / "atall" / "bin" / "atall-info"
    for words, line in (
        ([str(ROOT / "README.md")], "has no alltoall.c in it"),
        ([], "is expected"),
        (["/nowhere"], "is expected"),
    ):
        done = subprocess.run([str(info), *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert line in done.stderr


def test_a_prefix_that_could_not_be_named_is_refused(place):
    done = make(place, "install", PREFIX="/opt/a b")
    assert done.returncode != 0
    assert "an absolute path" in done.stderr


def test_what_is_installed_knows_where_it_was_tuned(place, tmp_path):
    """Unless it is a package."""
    for destdir, prefix, why in (
        ("", f"{tmp_path}/here", f"nothing is tuned in {place}: run ./configure there"),
        (tmp_path, "/there", "run './configure --verify' there"),
    ):
        assert make(place, "install", DESTDIR=destdir, PREFIX=prefix).returncode == 0
        top = Path(f"{destdir}{prefix}")
        argv = [str(top / "bin" / "atall-info"), "--verify", str(top / "lib" / "libatall.so")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert why in done.stderr
