"""What README asks for is enough: its two commands in a root file system that has nothing else."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import ROOT

RELEASE = "bookworm"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
ENTER = """\
set -e
root=$1
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mkdir -p former
pivot_root . former
umount -l /former
cd /home/visitor/atall
exec setpriv --reuid=1000 --regid=1000 --clear-groups env -i \\
  HOME=/home/visitor PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${@:2}"
"""
"""Pivots into a root, as a container does, and runs a command there as an ordinary user."""


def packages():
    """Those of Debian that README lists."""
    text = (ROOT / "README.md").read_text()
    (words,) = re.findall(
        r"They need Debian 12 or alike with (.*?), and a package index", text, re.S
    )
    plain = re.sub(r"\([^)]*\)", "", words).replace("\n", " ").replace(" and ", ", ")
    return [word.strip() for word in plain.split(",") if word.strip()]


def test_the_build_machine_installs_what_readme_lists_and_no_more():
    line = re.search(r"apt-get install -y -qq (.*) >", (ROOT / ".ci" / "run").read_text())
    assert line[1].split() == packages()


@pytest.fixture(scope="module")
def bare_root(tmp_path_factory):
    """A root with Debian's least and README's packages, and this source tree."""
    if os.geteuid() != 0:
        pytest.skip("a bare root takes root")
    for tool in ("debootstrap", "apt-get", "pivot_root"):
        if not shutil.which(tool):
            pytest.skip(f"a bare root takes {tool}")
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
    mirrors = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    root = tmp_path_factory.mktemp("bare") / "root"
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={','.join(packages())}", RELEASE,
         str(root), *mirrors[:1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no bare root here: {made.stdout.strip().splitlines()[-1:]}")
    if CERTIFICATES.exists():  # of a package index behind a proxy
        (root / CERTIFICATES.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    shutil.copy("/etc/hosts", root / "etc/hosts")
    home = root / "home/visitor"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(home / "atall")], check=True)
    subprocess.run(["chown", "-R", "1000:1000", str(home)], check=True)
    yield root
    shutil.rmtree(root, ignore_errors=True)


def enter(root, *words):
    settings = [f"{key}={value}" for key, value in os.environ.items() if key.startswith("PIP_")]
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", ENTER, "enter",
         str(root), *settings, *words],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


@pytest.mark.full
def test_both_commands_work_in_a_bare_root(bare_root):
    done = enter(bare_root, "./configure", "--emulate=doc/clusters/two-switches.conf")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (bare_root / "home/visitor/atall/generated/alltoall.c").exists()
    done = enter(bare_root, "make", "check")
    assert done.returncode == 0, done.stdout[-9000:] + done.stderr
    assert re.search(r"\d+ passed", done.stdout)
