/*
 * A program that knows nothing of ATALL: it calls MPI_Alltoall, and with MPI 4 MPI_Alltoall_c, as
 * C and as C++. Prints "fine".
 */
#include <mpi.h>

#include <stdio.h>

enum { MOST_RANKS = 64, COUNT = 300 };

int main(int argc, char **argv)
{
    static int sent[MOST_RANKS * COUNT], got[MOST_RANKS * COUNT];
    int rank, ranks, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int count = 1; count <= COUNT; count += 299) {
        for (int i = 0; i < ranks * count; i++)
            sent[i] = rank * 100000 + i;
        MPI_Alltoall(sent, count, MPI_INT, got, count, MPI_INT, MPI_COMM_WORLD);
#if MPI_VERSION >= 4
        MPI_Alltoall_c(sent, count, MPI_INT, got, count, MPI_INT, MPI_COMM_WORLD);
#endif
        for (int i = 0; i < ranks * count; i++)
            wrong += got[i] != i / count * 100000 + rank * count + i % count;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", wrong ? "wrong" : "fine");
    MPI_Finalize();
    return wrong != 0;
}
