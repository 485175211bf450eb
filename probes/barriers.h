/*
 * Barriers by themselves: the library's, and those that bodies have.
 */
#ifndef BARRIERS_H
#define BARRIERS_H

#include "timing.h"

static int wait_library(const struct atall_call *call)
{
    return PMPI_Barrier(call->comm);
}

static const struct {
    const char *name;
    int (*wait)(const struct atall_call *call);
} barriers[] = {
    { "library", wait_library },
#ifdef ATALL_EVERY
    { "ring", atall_barrier_ring },
    { "dissemination", atall_barrier_dissemination },
    { "tournament", atall_barrier_tournament },
#endif
};

enum { BARRIERS = sizeof barriers / sizeof barriers[0] };

static void time_barrier(int (*wait)(const struct atall_call *call), int calls)
{
    static double seconds[MOST_CALLS];
    const struct atall_call call = { .comm = team.harness, .rank = team.rank, .ranks = team.ranks };
    struct counters before = count_from_here();
    for (int i = 0; i < calls; i++) {
        harness_barrier();
        double start = local_now();
        require(wait(&call) == MPI_SUCCESS, "a barrier fails");
        seconds[i] = local_now() - start;
    }
    answer_slowest(seconds, calls, before);
}

#endif
