"""MPICH's own test suite comes to the same with our library preloaded as without it."""

import subprocess

import pytest

from .mpich_suite import build, compare, fetch


@pytest.mark.full
def test_no_difference(tools, tmp_path):
    try:
        source = fetch(tmp_path)
        build(source, tmp_path / "build", tools.mpicc)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no test suite of MPICH here: {error}")
    runs, different = compare(tools, source, tmp_path / "build")
    assert runs > 500
    assert different == []
