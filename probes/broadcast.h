/*
 * Broadcasts, to compare models of collective operations by (Vadhiyar, Fagg and Dongarra 4.3): rank
 * 0 starts sending each segment to each of its children; the others have posted all receives, and
 * send on a segment as soon as they have it. They are no part of what is emitted.
 */
#ifndef BROADCAST_H
#define BROADCAST_H

#include <mpi.h>
#include <stdlib.h>

enum broadcast_tree { FLAT, CHAIN, BINARY, BINOMIAL, BY_LIBRARY, BROADCAST_TREES };

static const char *const broadcast_names[BROADCAST_TREES] = { "flat", "chain", "binary", "binomial",
                                                              "library" };

enum { BROADCAST_TAG = 5, MOST_CHILDREN = 4096 };

/* The children of a rank, and its parent; -1: it has none. */
static inline int broadcast_children(enum broadcast_tree tree, int p, int own, int *child,
                                     int *parent)
{
    int count = 0;
    *parent = own == 0 ? -1 : tree == FLAT ? 0 : tree == CHAIN ? own - 1 : (own - 1) / 2;
    if (tree == FLAT)
        for (int r = 1; own == 0 && r < p; r++)
            child[count++] = r;
    if (tree == CHAIN && own + 1 < p)
        child[count++] = own + 1;
    if (tree == BINARY)
        for (int r = 2 * own + 1; r <= 2 * own + 2 && r < p; r++)
            child[count++] = r;
    if (tree == BINOMIAL) {
        int step = 1;
        while (own % (2 * step) == 0 && step < p)
            step *= 2;
        *parent = own == 0 ? -1 : own - step;
        for (step /= 2; step > 0; step /= 2)
            if (own + step < p)
                child[count++] = own + step;
    }
    return count;
}

static inline int broadcast(enum broadcast_tree tree, char *buffer, int bytes, int segment,
                            MPI_Comm comm)
{
    int p, own, parent, child[MOST_CHILDREN], posted = 0;
    if (tree == BY_LIBRARY)
        return PMPI_Bcast(buffer, bytes, MPI_BYTE, 0, comm);
    PMPI_Comm_rank(comm, &own);
    PMPI_Comm_size(comm, &p);
    const int children = broadcast_children(tree, p, own, child, &parent);
    const int segments = (bytes - 1) / segment + 1;
    const int last = bytes - (segments - 1) * segment; /* bytes of the last one */
    const size_t room = (size_t)segments * (size_t)(children + 1);
    MPI_Request *requests = (MPI_Request *)malloc(room * sizeof *requests), *sends;
    if (!requests)
        return MPI_ERR_NO_MEM;
    sends = requests + segments;
    for (int i = 0; parent >= 0 && i < segments; i++)
        PMPI_Irecv(buffer + (size_t)i * (size_t)segment, i < segments - 1 ? segment : last,
                   MPI_BYTE, parent, BROADCAST_TAG, comm, &requests[i]);
    for (int i = 0; i < segments; i++) {
        if (parent >= 0)
            PMPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        for (int c = 0; c < children; c++)
            PMPI_Isend(buffer + (size_t)i * (size_t)segment, i < segments - 1 ? segment : last,
                       MPI_BYTE, child[c], BROADCAST_TAG, comm, &sends[posted++]);
    }
    PMPI_Waitall(posted, sends, MPI_STATUSES_IGNORE);
    free(requests);
    return MPI_SUCCESS;
}

#endif
