/*
 * What all parts of the measuring job share: the ranks at work, their clock, memory and barrier.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include "counters.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CALLS = 1000, PAIRS = 3, MOST_CACHE = 1 << 24 };

/* A communicator that variants run on. */
struct communicator {
    MPI_Comm comm;
    struct atall_state *state;
};

enum { MEMBERS = 1024 };

/* The ranks at work: the first so many of the job, or some of them, in one communicator; or all of
 * a process grid, in as many communicators at a time. */
struct team {
    char members[MEMBERS]; /* ranks of the job, such as 0-3,8-11; empty: the first so many */
    MPI_Comm harness;      /* all of them: the job's own messages */
    int rank, ranks;
    int peers; /* ranks of each communicator that variants run on */
    int count; /* of this rank's, called in turn: 2 where rows and columns are alike */
    struct communicator mine[2];
    int speaks_for_host; /* this rank is the first of the team on its host */
    int ranks_on_host;
};

static struct team team;

/* Memory for all calls: successive ones take successive parts, so that caches stay cold. */
static struct {
    char *memory;
    size_t bytes, at;
} arena;

/* Seconds of this host's own clock. */
static inline double local_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "measure: rank %d: %s\n", team.rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Dissemination barrier of zero-byte messages: the same code whatever the MPI. */
static inline void harness_barrier(void)
{
    for (int hop = 1; hop < team.ranks; hop *= 2)
        PMPI_Sendrecv(NULL, 0, MPI_BYTE, (team.rank + hop) % team.ranks, 1, NULL, 0, MPI_BYTE,
                      (team.rank - hop + team.ranks) % team.ranks, 1, team.harness,
                      MPI_STATUS_IGNORE);
}

static inline int compare_doubles(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static inline double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- memory -------------------------------------------------------------------------------- */

static inline void reserve_arena(size_t bytes)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t want = PAIRS * 2 * (bytes + 64);
    if (cache > MOST_CACHE)
        cache = MOST_CACHE;
    if (cache > 0 && want < 2 * (size_t)cache)
        want = 2 * (size_t)cache;
    if (want <= arena.bytes)
        return;
    free(arena.memory);
    arena.memory = (char *)aligned_alloc(4096, (want + 4095) / 4096 * 4096);
    require(arena.memory != NULL, "no memory for the buffers");
    memset(arena.memory, team.rank, want);
    arena.bytes = want;
    arena.at = 0;
}

/* The next pair of buffers. */
static inline void next_buffers(size_t bytes, char **sendbuf, char **recvbuf)
{
    size_t step = (bytes + 63) / 64 * 64;
    if (arena.at + 2 * step > arena.bytes)
        arena.at = 0;
    *sendbuf = arena.memory + arena.at;
    *recvbuf = *sendbuf + step;
    arena.at += 2 * step;
}

/* ---- answers ------------------------------------------------------------------------------- */

static inline void answer_text(const char *key, const char *text)
{
    if (team.rank == 0)
        printf("atall: {\"%s\": \"%s\"}\n", key, text);
}

/* "key": [values], without the braces around. */
static inline void print_list(const char *key, const double *values, int n)
{
    printf("\"%s\": [", key);
    for (int i = 0; i < n; i++)
        printf("%s%.9f", i ? ", " : "", values[i]);
    printf("]");
}

/* What TCP counted on every host since `before`: [rank that speaks for the host, segments sent
 * again] where there are any, and all time-outs. */
static inline void print_counted(struct counters before)
{
    long *all = (long *)calloc(2 * (size_t)team.ranks, sizeof *all), timeouts = 0;
    const char *separator = "";
    require(all != NULL, "no memory");
    if (team.speaks_for_host) {
        struct counters after = counters_read();
        all[2 * team.rank] = after.retransmissions - before.retransmissions;
        all[2 * team.rank + 1] = after.timeouts - before.timeouts;
    }
    PMPI_Allreduce(MPI_IN_PLACE, all, 2 * team.ranks, MPI_LONG, MPI_SUM, team.harness);
    if (team.rank == 0) {
        printf("\"resent\": [");
        for (int i = 0; i < team.ranks; i++) {
            timeouts += all[2 * i + 1];
            if (all[2 * i] == 0)
                continue;
            printf("%s[%d, %ld]", separator, i, all[2 * i]);
            separator = ", ";
        }
        printf("], \"timeouts\": %ld", timeouts);
    }
    free(all);
}

static inline struct counters count_from_here(void)
{
    return team.speaks_for_host ? counters_read() : (struct counters){ 0, 0 };
}

/* Answer {"seconds": [...], "late": [...] (unless NULL), "resent": [...], "timeouts": n}; rank 0
 * has the times of all. */
static inline void answer_seconds(const double *seconds, const double *late, int n,
                                  struct counters before)
{
    if (team.rank == 0) {
        printf("atall: {");
        print_list("seconds", seconds, n);
        printf(", ");
    }
    if (team.rank == 0 && late) {
        print_list("late", late, n);
        printf(", ");
    }
    print_counted(before);
    if (team.rank == 0)
        printf("}\n");
}

/* Times of the slowest rank. */
static inline void answer_slowest(double *seconds, int n, struct counters before)
{
    PMPI_Reduce(team.rank ? seconds : MPI_IN_PLACE, seconds, n, MPI_DOUBLE, MPI_MAX, 0,
                team.harness);
    answer_seconds(seconds, NULL, n, before);
}

#endif
