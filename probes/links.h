/*
 * What the network itself does: single messages and flows.
 */
#ifndef LINKS_H
#define LINKS_H

#include "harness.h"

/* Seconds until the messages that ranks send and receive here have arrived and are acknowledged. */
static inline void time_stream(int sends, int to, int receives, int from, int bytes)
{
    struct counters before;
    MPI_Request requests[2];
    int posted = 0;
    reserve_arena(2 * (size_t)bytes);
    char *in = arena.memory, *out = in + bytes;
    before = count_from_here();
    harness_barrier();
    double start = local_now();
    if (receives)
        PMPI_Irecv(in, bytes, MPI_BYTE, from, 2, team.harness, &requests[posted++]);
    if (sends)
        PMPI_Isend(out, bytes, MPI_BYTE, to, 2, team.harness, &requests[posted++]);
    PMPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
    double seconds = local_now() - start;
    answer_slowest(&seconds, 1, before);
}

/* Half of the time there and back. */
static inline void time_pingpong(int from, int to, int bytes, int calls)
{
    static double seconds[MOST_CALLS];
    struct counters before;
    reserve_arena((size_t)bytes);
    before = count_from_here();
    harness_barrier();
    for (int i = 0; i < calls; i++) {
        double start = local_now();
        if (team.rank == from) {
            PMPI_Send(arena.memory, bytes, MPI_BYTE, to, 3, team.harness);
            PMPI_Recv(arena.memory, bytes, MPI_BYTE, to, 3, team.harness, MPI_STATUS_IGNORE);
        } else if (team.rank == to) {
            PMPI_Recv(arena.memory, bytes, MPI_BYTE, from, 3, team.harness, MPI_STATUS_IGNORE);
            PMPI_Send(arena.memory, bytes, MPI_BYTE, from, 3, team.harness);
        }
        seconds[i] = team.rank == from ? (local_now() - start) / 2 : 0;
    }
    answer_slowest(seconds, calls, before);
}

#endif
