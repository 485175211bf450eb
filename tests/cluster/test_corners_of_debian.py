"""The corners of MPI once more, with Debian's MPICH, which is older."""

import pytest

from tests.test_corners import program, test_a_corner, text  # noqa: F401
from tests.ways import compiled, run, waiting_ranks

pytestmark = pytest.mark.cluster

LATE = """
#include <mpi.h>
#include <unistd.h>
int main(void)
{
    int rank;
    MPI_Init(0, 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        sleep(1);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def tools(debian):
    return debian


def test_ranks_end_however_late_one_is(tools, tmp_path):
    """Where nothing answers for them they hang, in every other run and more."""
    (tmp_path / "late.c").write_text(LATE)
    late = compiled(tools, tmp_path / "late", [tmp_path / "late.c"])
    settings = waiting_ranks(tools, tmp_path / "libblocking.so")
    for _ in range(8):
        run(tools, 4, late, seconds=30, **settings)
