/*
 * One clock for all ranks: each learns how far rank 0's is from its own.
 *
 * As in HCA (Hunold and Carpen-Amarie, ReproMPI) ranks learn in a binomial tree, log2(p) rounds,
 * from a rank that knows the global time already: the quickest of several questions and answers
 * tells the offset, since it leaves the least room for the two ways to differ. Every
 * synchronisation adds a point; a line through the points of the last minutes is the drift, which
 * holds until the next.
 */
#ifndef CLOCKS_H
#define CLOCKS_H

#include "harness.h"

#include <math.h>

#define CLOCKS_AGE 10.0  /* seconds after which the clocks are synchronised again */
#define CLOCKS_SPAN 1.0  /* points closer together than this tell no drift */
#define CLOCKS_SPIN 2e-5 /* seconds before a start at which waiting becomes polling */

enum { CLOCKS_POINTS = 8, CLOCKS_QUESTIONS = 30, CLOCKS_WARMUPS = 5, CLOCKS_TAG = 7 };

/* global = local + offset + slope * (local - at) */
static struct {
    double at[CLOCKS_POINTS], offset[CLOCKS_POINTS]; /* what was learnt, oldest first */
    int points;
    double centre, mean, slope;
    double latest; /* local time of the last synchronisation */
} clocks;

static inline double clocks_global(double local)
{
    return local + clocks.mean + clocks.slope * (local - clocks.centre);
}

static inline double global_now(void)
{
    return clocks_global(local_now());
}

/* Answer a peer's questions for the global time. */
static inline void clocks_teach(int peer)
{
    for (int i = 0; i < CLOCKS_WARMUPS + CLOCKS_QUESTIONS; i++) {
        double now;
        PMPI_Recv(NULL, 0, MPI_BYTE, peer, CLOCKS_TAG, team.harness, MPI_STATUS_IGNORE);
        now = global_now();
        PMPI_Send(&now, 1, MPI_DOUBLE, peer, CLOCKS_TAG, team.harness);
    }
}

/* Ask a peer: how far it is ahead of this rank's own clock, and when that was on this clock. */
static inline double clocks_ask(int peer, double *at)
{
    double shortest = HUGE_VAL, offset = 0;
    for (int i = 0; i < CLOCKS_WARMUPS + CLOCKS_QUESTIONS; i++) {
        double begin = local_now(), theirs, end;
        PMPI_Send(NULL, 0, MPI_BYTE, peer, CLOCKS_TAG, team.harness);
        PMPI_Recv(&theirs, 1, MPI_DOUBLE, peer, CLOCKS_TAG, team.harness, MPI_STATUS_IGNORE);
        end = local_now();
        if (i >= CLOCKS_WARMUPS && end - begin < shortest) {
            shortest = end - begin;
            *at = (begin + end) / 2;
            offset = theirs - *at;
        }
    }
    return offset;
}

/* The least-squares line through the points; a level where they are too close together. */
static inline void clocks_fit(void)
{
    const int n = clocks.points;
    double above = 0, below = 0;
    clocks.centre = clocks.at[n - 1];
    clocks.mean = clocks.offset[n - 1];
    clocks.slope = 0;
    if (clocks.at[n - 1] - clocks.at[0] < CLOCKS_SPAN)
        return;
    clocks.centre = clocks.mean = 0;
    for (int i = 0; i < n; i++) {
        clocks.centre += clocks.at[i] / n;
        clocks.mean += clocks.offset[i] / n;
    }
    for (int i = 0; i < n; i++) {
        above += (clocks.at[i] - clocks.centre) * (clocks.offset[i] - clocks.mean);
        below += (clocks.at[i] - clocks.centre) * (clocks.at[i] - clocks.centre);
    }
    clocks.slope = above / below;
}

static inline void clocks_learn(int peer)
{
    double at = 0, offset = clocks_ask(peer, &at);
    if (clocks.points == CLOCKS_POINTS) {
        memmove(clocks.at, clocks.at + 1, (CLOCKS_POINTS - 1) * sizeof *clocks.at);
        memmove(clocks.offset, clocks.offset + 1, (CLOCKS_POINTS - 1) * sizeof *clocks.offset);
        clocks.points--;
    }
    clocks.at[clocks.points] = at;
    clocks.offset[clocks.points++] = offset;
    clocks_fit();
}

/* All ranks of the team: learn the global time again. */
static inline void clocks_synchronise(void)
{
    for (int known = 1; known < team.ranks; known *= 2) {
        if (team.rank < known && team.rank + known < team.ranks)
            clocks_teach(team.rank + known);
        else if (team.rank >= known && team.rank < 2 * known)
            clocks_learn(team.rank - known);
    }
    clocks.latest = local_now();
}

/* All ranks: synchronise if rank 0 finds that it is time. */
static inline void clocks_refresh(void)
{
    int due = clocks.latest <= 0 || local_now() - clocks.latest > CLOCKS_AGE;
    PMPI_Bcast(&due, 1, MPI_INT, 0, team.harness);
    if (due)
        clocks_synchronise();
}

/* Forget all: another team's clocks have another rank 0, or none yet. */
static inline void clocks_forget(void)
{
    memset(&clocks, 0, sizeof clocks);
}

/* Wait for a time of the global clock: 0, or how many seconds ago it had passed already. Others may
 * share this processor, so nap until close to it. */
static inline double clocks_wait(double start)
{
    double left = start - global_now(), nap = left - CLOCKS_SPIN;
    if (left < 0)
        return -left;
    if (nap > 0)
        nanosleep(&(struct timespec){ (time_t)nap, (long)(1e9 * fmod(nap, 1.0)) }, NULL);
    while (global_now() < start)
        ;
    return 0;
}

/* Answer {"error": how far any rank's global time is from rank 0's, "skew": how far apart ranks
 * leave a barrier (median), "offsets": [...], "drifts": [...]}. */
static inline void clocks_answer(int barriers)
{
    static double skew[MOST_CALLS];
    double mine[2], *all = NULL, worst = 0;
    clocks_synchronise();
    for (int peer = 1; peer < team.ranks; peer++) { /* beside the tree: straight against rank 0 */
        double at, offset;
        if (team.rank == 0)
            clocks_teach(peer);
        if (team.rank == peer) {
            offset = clocks_ask(0, &at);
            worst = fabs(at + offset - clocks_global(at));
        }
    }
    for (int i = 0; i < barriers; i++) {
        double left[2];
        harness_barrier();
        left[0] = global_now();
        left[1] = -left[0];
        PMPI_Allreduce(MPI_IN_PLACE, left, 2, MPI_DOUBLE, MPI_MAX, team.harness);
        skew[i] = left[0] + left[1];
    }
    PMPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, team.harness);
    mine[0] = clocks.mean - clocks.slope * clocks.centre;
    mine[1] = clocks.slope;
    if (team.rank == 0)
        require((all = (double *)malloc(2 * (size_t)team.ranks * sizeof *all)) != NULL,
                "no memory");
    PMPI_Gather(&mine[0], 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, team.harness);
    PMPI_Gather(&mine[1], 1, MPI_DOUBLE, all ? all + team.ranks : NULL, 1, MPI_DOUBLE, 0,
                team.harness);
    if (team.rank != 0)
        return;
    printf("atall: {\"error\": %.9f, \"skew\": %.9f, ", worst, median(skew, barriers));
    print_list("offsets", all, team.ranks);
    printf(", ");
    print_list("drifts", all + team.ranks, team.ranks);
    printf("}\n");
    free(all);
}

#endif
