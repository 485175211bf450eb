/*
 * Transpose a matrix that is spread over all ranks by rows, with one all-to-all, and verify it.
 *
 *     mpicc transpose.c alltoall.c -o transpose && mpiexec -n 8 ./transpose
 */
#include "alltoall.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 48 }; /* rows and columns of the tile that each pair of ranks exchanges */

/* What stands in row r, column c of the matrix. */
static double element(long r, long c)
{
    return (double)r * 1e6 + (double)c;
}

int main(int argc, char **argv)
{
    int rank, ranks, wrong = 0, wrong_anywhere;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    /* rank has rows rank * SIDE ..., as one tile of SIDE x SIDE for each rank */
    size_t tile = (size_t)SIDE * SIDE;
    double *rows = malloc((size_t)ranks * tile * sizeof *rows);
    double *columns = malloc((size_t)ranks * tile * sizeof *columns);
    if (!rows || !columns)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int peer = 0; peer < ranks; peer++)
        for (int r = 0; r < SIDE; r++)
            for (int c = 0; c < SIDE; c++) /* transposed within the tile */
                rows[peer * tile + (size_t)(c * SIDE + r)] =
                    element(rank * SIDE + r, peer * SIDE + c);

    ATALL_Alltoall(rows, (int)tile, MPI_DOUBLE, columns, (int)tile, MPI_DOUBLE, MPI_COMM_WORLD);

    for (int peer = 0; peer < ranks; peer++)
        for (int r = 0; r < SIDE; r++)
            for (int c = 0; c < SIDE; c++)
                wrong += columns[peer * tile + (size_t)(r * SIDE + c)] !=
                         element(peer * SIDE + c, rank * SIDE + r);
    MPI_Reduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d x %d matrix on %d ranks: %s\n", ranks * SIDE, ranks * SIDE, ranks,
               wrong_anywhere ? "WRONG" : "transposed and verified");
    free(rows);
    free(columns);
    MPI_Finalize();
    return rank == 0 && wrong_anywhere;
}
