/*
 * What single messages cost either side of them: the parameters of models (Vadhiyar, Fagg and
 * Dongarra 4.3, figures 7 and 8; Thakur, Rabenseifner and Gropp 3; Liu, Wang and Prasanna 2.1).
 */
#ifndef POINTS_H
#define POINTS_H

#include "links.h"
#include "neighbours.h"

enum { POINTS_TAG = 4 };

#define POINTS_LEAD 1.5e-3 /* seconds in which all are sure to have left a barrier */

static inline void pass_seconds(double seconds)
{
    double end = local_now() + seconds;
    while (local_now() < end)
        ;
}

static inline void say(const char *text)
{
    if (team.rank == 0)
        fputs(text, stdout);
}

/* Rank 0 prints times of one rank: "key": [...]. */
static inline void print_times_of(int rank, const char *key, double *seconds, int n)
{
    if (rank != 0 && team.rank == rank)
        PMPI_Send(seconds, n, MPI_DOUBLE, 0, POINTS_TAG, team.harness);
    if (rank != 0 && team.rank == 0)
        PMPI_Recv(seconds, n, MPI_DOUBLE, rank, POINTS_TAG, team.harness, MPI_STATUS_IGNORE);
    if (team.rank == 0)
        print_list(key, seconds, n);
}

/* The receiver asks for a message so many seconds after it could have been there: how long it then
 * takes to receive it, how long the sender takes to start it, and until it may forget it.
 * {"receive": [...], "start": [...], "end": [...]} */
static inline void time_delayed(int from, int to, int bytes, double delay, int calls)
{
    static double receive[MOST_CALLS], start[MOST_CALLS], end[MOST_CALLS];
    MPI_Request request;
    reserve_arena((size_t)bytes);
    for (int i = 0; i < calls; i++) {
        harness_barrier();
        if (team.rank == from || team.rank == to)
            pass_seconds(POINTS_LEAD);
        double begin = local_now();
        if (team.rank == from) {
            PMPI_Isend(arena.memory, bytes, MPI_BYTE, to, POINTS_TAG, team.harness, &request);
            start[i] = local_now() - begin;
            PMPI_Wait(&request, MPI_STATUS_IGNORE);
            end[i] = local_now() - begin;
        } else if (team.rank == to) {
            pass_seconds(delay);
            begin = local_now();
            PMPI_Irecv(arena.memory, bytes, MPI_BYTE, from, POINTS_TAG, team.harness, &request);
            PMPI_Wait(&request, MPI_STATUS_IGNORE);
            receive[i] = local_now() - begin;
        }
    }
    say("atall: {");
    print_times_of(to, "receive", receive, calls);
    say(", ");
    print_times_of(from, "start", start, calls);
    say(", ");
    print_times_of(from, "end", end, calls);
    say("}\n");
}

/* One rank starts so many sends in a row to another that has posted all receives: the time that
 * each start takes, and until all have arrived. {"start": [...], "all": [s]} */
static inline void time_isends(int from, int to, int bytes, int count)
{
    static double start[MOST_CALLS];
    static MPI_Request requests[MOST_CALLS];
    double all;
    reserve_arena((size_t)bytes);
    for (int i = 0; team.rank == to && i < count; i++)
        PMPI_Irecv(arena.memory, bytes, MPI_BYTE, from, POINTS_TAG, team.harness, &requests[i]);
    harness_barrier();
    double begin = local_now(), last = begin;
    for (int i = 0; team.rank == from && i < count; i++) {
        PMPI_Isend(arena.memory, bytes, MPI_BYTE, to, POINTS_TAG, team.harness, &requests[i]);
        start[i] = local_now() - last;
        last += start[i];
    }
    if (team.rank == from || team.rank == to)
        PMPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    if (team.rank == to) /* so the sender learns when all are there */
        PMPI_Send(NULL, 0, MPI_BYTE, from, POINTS_TAG, team.harness);
    if (team.rank == from)
        PMPI_Recv(NULL, 0, MPI_BYTE, to, POINTS_TAG, team.harness, MPI_STATUS_IGNORE);
    all = local_now() - begin;
    say("atall: {");
    print_times_of(from, "start", start, count);
    say(", ");
    print_times_of(from, "all", &all, 1);
    say("}\n");
}

/* Exchanges in a row, each with one rank that is sent to and one that is received from, of which
 * either may be nobody: seconds of one, of the slowest rank. */
static inline void time_exchange(int to, int from, int bytes, int calls)
{
    struct counters before;
    reserve_arena(2 * (size_t)bytes);
    before = count_from_here();
    harness_barrier();
    double begin = local_now(), seconds;
    for (int i = 0; i < calls; i++)
        PMPI_Sendrecv(arena.memory, bytes, MPI_BYTE, to, POINTS_TAG, arena.memory + bytes, bytes,
                      MPI_BYTE, from, POINTS_TAG, team.harness, MPI_STATUS_IGNORE);
    seconds = (local_now() - begin) / calls;
    answer_slowest(&seconds, 1, before);
}

/* Exchanges in a row of every rank with every other at once: seconds of one, of the slowest. */
static inline void time_crowd(int bytes, int calls)
{
    struct counters before;
    MPI_Request *requests = (MPI_Request *)malloc(2 * (size_t)team.ranks * sizeof *requests);
    require(requests != NULL, "no memory");
    reserve_arena((size_t)bytes * (size_t)team.ranks);
    before = count_from_here();
    harness_barrier();
    double begin = local_now(), seconds;
    for (int i = 0; i < calls; i++)
        exchange_with_all(arena.memory, arena.memory, bytes, team.ranks, team.rank, team.harness,
                          requests);
    seconds = (local_now() - begin) / calls;
    free(requests);
    answer_slowest(&seconds, 1, before);
}

/* So many ranks send to rank 0 at once: until it has all. */
static inline void time_burst(int senders, int bytes, int calls)
{
    static double seconds[MOST_CALLS];
    struct counters before;
    MPI_Request *requests = (MPI_Request *)malloc((size_t)team.ranks * sizeof *requests);
    require(requests != NULL, "no memory");
    reserve_arena((size_t)bytes * (size_t)team.ranks);
    before = count_from_here();
    for (int i = 0; i < calls; i++) {
        for (int r = 1; team.rank == 0 && r <= senders; r++)
            PMPI_Irecv(arena.memory + (size_t)r * (size_t)bytes, bytes, MPI_BYTE, r, POINTS_TAG,
                       team.harness, &requests[r - 1]);
        harness_barrier();
        double begin = local_now();
        if (team.rank == 0)
            PMPI_Waitall(senders, requests, MPI_STATUSES_IGNORE);
        else if (team.rank <= senders)
            PMPI_Send(arena.memory, bytes, MPI_BYTE, 0, POINTS_TAG, team.harness);
        seconds[i] = local_now() - begin;
    }
    answer_slowest(seconds, calls, before);
    free(requests);
}

/* Seconds that one message takes from each rank to its neighbour, one rank after the other. */
static inline void time_rates(int to, int from, int bytes)
{
    double *seconds = (double *)calloc((size_t)team.ranks, sizeof *seconds);
    require(seconds != NULL, "no memory");
    reserve_arena((size_t)bytes);
    for (int r = 0; r < team.ranks; r++) {
        harness_barrier();
        double begin = local_now();
        if (team.rank == r)
            PMPI_Send(arena.memory, bytes, MPI_BYTE, to, POINTS_TAG, team.harness);
        if (from == r)
            PMPI_Recv(arena.memory, bytes, MPI_BYTE, from, POINTS_TAG, team.harness,
                      MPI_STATUS_IGNORE);
        if (from == r)
            seconds[r] = local_now() - begin;
    }
    answer_slowest(seconds, team.ranks, count_from_here());
    free(seconds);
}

/* Copying so many bytes in memory: of rank 0 alone, or of all ranks at once. */
static inline void time_copies(int bytes, int calls, int all)
{
    static double seconds[MOST_CALLS];
    struct counters before = count_from_here();
    reserve_arena(2 * (size_t)bytes);
    for (int i = 0; i < calls; i++) {
        char *from, *to;
        harness_barrier();
        next_buffers((size_t)bytes, &from, &to);
        double begin = local_now();
        if (all || team.rank == 0)
            memcpy(to, from, (size_t)bytes);
        seconds[i] = local_now() - begin;
    }
    answer_slowest(seconds, calls, before);
}

#endif
