"""What the tests with Debian's packages share."""

import shutil

import pytest

from search.toolchain import Toolchain

MPICC, MPIEXEC = "/usr/bin/mpicc.mpich", "/usr/bin/mpiexec.mpich"


@pytest.fixture(scope="session")
def debian():
    """The MPICH of Debian's packages, whatever else is there."""
    if not shutil.which(MPICC):
        pytest.skip("no MPICH of Debian: install mpich and libmpich-dev")
    return Toolchain(MPICC, MPIEXEC, ())
