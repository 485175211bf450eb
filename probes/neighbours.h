/*
 * Exchanges of all ranks at once, as the measuring job and the model make them. Who is next to
 * whom: in the order of a communicator's switches where that is known, so that no cable is crossed
 * twice when every rank sends to the next one.
 */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

#include <mpi.h>
#include <stddef.h>

enum { CROWD_TAG = 5 };

/* The ranks behind and before one of p; ``rankings`` are the emitted file's (the rank of each
 * number comes first, the number of each rank behind two of these), or NULL. */
static inline void neighbours_of(const int *rankings, int p, int rank, int *to, int *from)
{
    const int number = rankings ? rankings[2 * p + rank] : rank;
    *to = (number + 1) % p;
    *from = (number - 1 + p) % p;
    if (rankings) {
        *to = rankings[*to];
        *from = rankings[*from];
    }
}

/* One of p ranks exchanges ``bytes`` with each of the others at once; ``in`` has room for p blocks,
 * ``requests`` for 2 (p - 1). */
static inline void exchange_with_all(const char *out, char *in, int bytes, int p, int rank,
                                     MPI_Comm comm, MPI_Request *requests)
{
    for (int k = 1; k < p; k++)
        PMPI_Irecv(in + (size_t)k * (size_t)bytes, bytes, MPI_BYTE, (rank - k + p) % p, CROWD_TAG,
                   comm, &requests[2 * k - 2]);
    for (int k = 1; k < p; k++)
        PMPI_Isend(out, bytes, MPI_BYTE, (rank + k) % p, CROWD_TAG, comm, &requests[2 * k - 1]);
    PMPI_Waitall(2 * p - 2, requests, MPI_STATUSES_IGNORE);
}

#endif
