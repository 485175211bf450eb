"""The corners of MPI once more, with Debian's MPICH, which is older."""

import shutil

import pytest

from search.toolchain import Toolchain
from tests.test_corners import program, test_a_corner, text  # noqa: F401

pytestmark = pytest.mark.cluster

MPICC, MPIEXEC = "/usr/bin/mpicc.mpich", "/usr/bin/mpiexec.mpich"


@pytest.fixture(scope="module")
def tools():
    if not shutil.which(MPICC):
        pytest.skip("no MPICH of Debian: install mpich and libmpich-dev")
    return Toolchain(MPICC, MPIEXEC, ())
