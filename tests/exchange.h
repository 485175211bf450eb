/*
 * One call of the file under test, which is included before.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stdlib.h>

/* One exchange of counted integers; whether what arrived is right. */
static int exchange(MPI_Comm comm, int count, int salt)
{
    int own, peers, right;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &peers);
    int *sent = (int *)malloc(sizeof(int) * (size_t)(peers * count));
    int *got = (int *)calloc((size_t)(peers * count), sizeof(int));
    for (int i = 0; i < peers * count; i++)
        sent[i] = salt + own * 10007 + i;
    right = ATALL_Alltoall(sent, count, MPI_INT, got, count, MPI_INT, comm) == MPI_SUCCESS;
    for (int i = 0; i < peers * count; i++)
        right = right && got[i] == salt + i / count * 10007 + own * count + i % count;
    free(sent);
    free(got);
    return right;
}

#endif
