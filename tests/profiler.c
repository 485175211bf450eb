/* A user's profiler: counts the program's calls of MPI_Alltoall and passes them on. */
#include <mpi.h>

#include <stdio.h>

static int calls;

int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                 int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    calls++;
    return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("the profiler saw %d calls\n", calls);
    return PMPI_Finalize();
}
