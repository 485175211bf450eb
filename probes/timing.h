/*
 * How a call is timed. Its time is always that of the slowest rank.
 *
 * - barrier: every rank from leaving a barrier to its own end: for calls long beside the skew with
 *   which ranks leave a barrier.
 * - round: Round-Time (Hunold and Carpen-Amarie, ReproMPI). Rank 0 names starts on the global
 * clock, all wait for each; a call to which a rank came late is void and made up for. Its time is
 * from the first start to the last end: where hosts share a processor the last one starts when
 * others are well under way, and from its start a call seems shorter than the wire allows. Where
 * all ranks meet no start, calls are timed by barriers: the answer then has no "late".
 * - loop: calls back to back, their mean over calls and ranks: Faraj and Yuan, figure 1.
 */
#ifndef TIMING_H
#define TIMING_H

#include "clocks.h"

enum scheme { BY_BARRIER, BY_ROUND, BY_LOOP, SCHEMES };

static const char *const scheme_names[SCHEMES] = { "barrier", "round", "loop" };

#define TIMING_LEAD 1e-4 /* seconds between the naming of a start and the start, at the least */
#define TIMING_MOST 5e-3 /* and at the most, */
#define TIMING_LONG 0.2  /* but where no start was met */
#define TIMING_LATE 1.5  /* so many times longer after a rank was late, */
#define TIMING_EASE 0.95 /* and shorter when none was */
#define TIMING_STEP 1.5  /* from start to start, in usual calls, beside the lead */
#define TIMING_SLOT 2.0  /* seconds after which void calls are not tried again */

/* One all-to-all of the request under way; false if it failed. */
typedef int timing_call(char *sendbuf, char *recvbuf);

static double timing_lead = TIMING_LEAD; /* the same on all ranks */

static inline int timed_call(timing_call *call, size_t bytes)
{
    char *sendbuf, *recvbuf;
    next_buffers(bytes, &sendbuf, &recvbuf);
    return call(sendbuf, recvbuf);
}

static inline int by_barrier(timing_call *call, size_t bytes, int calls, double *seconds)
{
    int good = 1;
    for (int i = 0; i < calls; i++) {
        harness_barrier();
        double start = local_now();
        good &= timed_call(call, bytes);
        seconds[i] = local_now() - start;
    }
    PMPI_Allreduce(MPI_IN_PLACE, seconds, calls, MPI_DOUBLE, MPI_MAX, team.harness);
    return good;
}

/* Start calls at times that rank 0 names, all at once: no message but the calls' own is then under
 * way between them. Each rank notes how late it was for a start, when it started, and its end. */
static inline int start_on_time(timing_call *call, size_t bytes, int calls, double usual,
                                double seen[][4])
{
    double plan[2] = { global_now() + timing_lead, TIMING_STEP * usual + timing_lead };
    int good = 1;
    PMPI_Bcast(plan, 2, MPI_DOUBLE, 0, team.harness);
    for (int i = 0; i < calls; i++) {
        seen[i][0] = clocks_wait(plan[0] + i * plan[1]);
        seen[i][1] = global_now();
        seen[i][2] = -seen[i][1];
        good &= timed_call(call, bytes);
        seen[i][3] = global_now();
    }
    PMPI_Allreduce(MPI_IN_PLACE, seen, 4 * calls, MPI_DOUBLE, MPI_MAX, team.harness);
    return good;
}

/* As many calls as are asked for and not void, until the slot is over: *valid; ``usual`` is what a
 * call takes. *late is from the first start of a call to the last. */
static inline int by_round(timing_call *call, size_t bytes, int calls, double usual,
                           double *seconds, double *late, int *valid)
{
    static double seen[MOST_CALLS][4];
    int good = 1, over = 0;
    clocks_refresh();
    double end = global_now() + TIMING_SLOT; /* rank 0 decides */
    for (*valid = 0; *valid < calls && !over;) {
        int wanted = calls - *valid, before = *valid;
        double latest = 0;
        good &= start_on_time(call, bytes, wanted, usual, seen);
        for (int i = 0; i < wanted; i++) {
            latest = fmax(latest, seen[i][0]);
            if (seen[i][0] > 0)
                continue;
            seconds[*valid] = seen[i][3] + seen[i][2];
            late[(*valid)++] = seen[i][1] + seen[i][2];
        }
        if (latest <= 0)
            timing_lead = fmax(TIMING_EASE * timing_lead, TIMING_LEAD);
        else if (*valid > before)
            timing_lead = fmin(TIMING_LATE * timing_lead, TIMING_MOST);
        else
            timing_lead = fmin(TIMING_LATE * timing_lead + latest, TIMING_LONG);
        over = *valid < calls && global_now() > end;
        if (*valid < calls)
            PMPI_Bcast(&over, 1, MPI_INT, 0, team.harness);
    }
    timing_lead = fmin(timing_lead, TIMING_MOST);
    return good;
}

static inline int by_loop(timing_call *call, size_t bytes, int calls, double *seconds)
{
    int good = 1;
    harness_barrier();
    double start = local_now();
    for (int i = 0; i < calls; i++)
        good &= timed_call(call, bytes);
    seconds[0] = (local_now() - start) / calls;
    PMPI_Allreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE, MPI_SUM, team.harness);
    seconds[0] /= team.ranks;
    return good;
}

/* Time so many calls and answer. */
static inline void time_calls(timing_call *call, size_t bytes, enum scheme scheme, int warmups,
                              int calls)
{
    static double seconds[MOST_CALLS], late[MOST_CALLS];
    struct counters before;
    int n = calls, good = 1;
    reserve_arena(bytes);
    double usual = 0; /* what the last of the calls to warm up took */
    for (int i = 0; i < warmups; i++) {
        harness_barrier();
        double start = local_now();
        good &= timed_call(call, bytes);
        usual = local_now() - start;
    }
    harness_barrier();
    before = count_from_here();
    if (scheme == BY_ROUND) {
        good &= by_round(call, bytes, calls, usual, seconds, late, &n);
        if (n == 0) {
            scheme = BY_BARRIER;
            n = calls;
        }
    }
    if (scheme == BY_BARRIER)
        good &= by_barrier(call, bytes, calls, seconds);
    if (scheme == BY_LOOP)
        good &= by_loop(call, bytes, calls, seconds);
    PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, team.harness);
    if (!good) {
        answer_text("error", "it returned an error");
        return;
    }
    answer_seconds(seconds, scheme == BY_ROUND ? late : NULL, scheme == BY_LOOP ? 1 : n, before);
}

#endif
