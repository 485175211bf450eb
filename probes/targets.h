/*
 * What the job calls: a variant of the emitted file, the whole of that, or the library's own;
 * whether its result is right, how long it takes, and which messages it sends. Included behind
 * ATALL_SOURCE.
 */
#ifndef TARGETS_H
#define TARGETS_H

#include "broadcast.h"
#include "forced.h"
#include "oracle.h"
#include "timing.h"

enum { QUIT = -1, UNKNOWN = -2 };

enum target { VARIANT, GENERATED, LIBRARY };

struct request {
    int verb; /* its place in the table of measure.c; or one of those above */
    int target, scheme;
    long size;         /* bytes to each peer, or of a message */
    int first, second; /* ranks; or calls to warm up and to time */
    int calls, delay;  /* microseconds */
    int is_broadcast, tree, segment;
    unsigned number; /* of the request: what is sent depends on it */
    struct atall_row row;
    struct forced forced; /* of the target LIBRARY */
};

static struct request request;

static int call_target(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                       int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct atall_state *state = team.mine[team.count > 1 && comm == team.mine[1].comm].state;
    if (request.target == GENERATED)
        return ATALL_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    if (request.target == LIBRARY)
        return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    return atall_run(state, &request.row, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                     recvtype, (size_t)request.size);
}

static int call_bytes(char *sendbuf, char *recvbuf)
{
    int n = (int)request.size, good = 1;
    if (request.is_broadcast)
        return broadcast((enum broadcast_tree)request.tree, recvbuf, n, request.segment,
                         team.harness) == MPI_SUCCESS;
    for (int i = 0; i < team.count; i++)
        good &= call_target(sendbuf, n, MPI_BYTE, recvbuf, n, MPI_BYTE, team.mine[i].comm) ==
                MPI_SUCCESS;
    return good;
}

/* Give a state the scratch that the emitted file would keep; false if it would refuse. All ranks
 * of the team have it, or none, and all say the same. */
static int give_scratch(struct atall_state *state)
{
    int agreed[2], have = 1; /* whether it is had, and whether that or going without will do */
    size_t want = atall_wanted(state, &request.row, (size_t)request.size);
    if (request.target == VARIANT && want > 0) {
        request.row.most = (size_t)request.size;
        have = want <= atall_row_scratch(state, &request.row);
        if (have && want > state->scratch_bytes) {
            free(state->scratch);
            state->scratch = (char *)malloc(want);
            state->scratch_bytes = state->scratch ? want : 0;
            have = state->scratch != NULL;
        }
    }
    agreed[0] = have;
    agreed[1] = have || atall_spares_scratch(state, &request.row);
    PMPI_Allreduce(MPI_IN_PLACE, agreed, 2, MPI_INT, MPI_MIN, team.harness);
    if (!agreed[0])
        state->scratch_bytes = 0;
    return agreed[1];
}

static int have_scratch(void)
{
    int have = 1;
    for (int i = 0; i < team.count; i++)
        have &= give_scratch(team.mine[i].state);
    return have;
}

static const char too_much_scratch[] = "it needs more scratch memory than is kept";

static void verify(void)
{
    struct oracle_case c = { (int)request.size, (int)request.size, MPI_BYTE,
                             MPI_BYTE,          MPI_COMM_NULL,     request.number };
    const char *verdict = NULL, *other;
    int wrong, anywhere;
    if (!have_scratch()) {
        answer_text("verdict", too_much_scratch);
        return;
    }
    for (int i = 0; i < team.count; i++) { /* all of them: others may have found nothing */
        c.comm = team.mine[i].comm;
        other = oracle_judge(call_target, &c);
        verdict = verdict ? verdict : other;
    }
    wrong = verdict != NULL;
    PMPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_MAX, team.harness);
    if (wrong)
        fprintf(stderr, "measure: rank %d: %s\n", team.rank, verdict);
    answer_text("verdict", !anywhere ? "ok" : wrong ? verdict : "a rank received wrong data");
}

static void time_target(void)
{
    if (have_scratch())
        time_calls(call_bytes, (size_t)team.peers * (size_t)request.size,
                   (enum scheme)request.scheme, request.first, request.second);
    else
        answer_text("error", too_much_scratch);
}

/* Whether every rank gets what rank 0 broadcasts; the same on all of them. */
static int broadcast_is_right(void)
{
    const size_t n = (size_t)request.size;
    int right;
    reserve_arena(n);
    char *got = arena.memory, *expected = got + n;
    oracle_stream((unsigned char *)expected, n, request.number, 0, 0);
    for (size_t i = 0; i < n; i++)
        got[i] = team.rank == 0 ? expected[i] : (char)~expected[i];
    right = call_bytes(NULL, got) && memcmp(got, expected, n) == 0;
    PMPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, team.harness);
    return right;
}

static void time_broadcast(void)
{
    if (broadcast_is_right())
        time_calls(call_bytes, (size_t)request.size, BY_BARRIER, request.first, request.second);
    else
        answer_text("error", "a rank received wrong data");
}

#ifdef ATALL_RECORD
/* Rank 0 prints what every rank recorded; seconds since the earliest start. */
static void answer_messages(double start)
{
    int bytes = record_count * (int)sizeof *record_messages, *sizes, *begins, all = 0;
    struct record_message *messages = NULL;
    sizes = (int *)calloc(2 * (size_t)team.ranks, sizeof *sizes);
    require(sizes != NULL, "no memory");
    begins = sizes + team.ranks;
    PMPI_Gather(&bytes, 1, MPI_INT, sizes, 1, MPI_INT, 0, team.harness);
    for (int i = 0; i < team.ranks; i++) {
        begins[i] = all;
        all += sizes[i];
    }
    if (team.rank == 0)
        require((messages = (struct record_message *)malloc((size_t)all + 1)) != NULL, "no memory");
    PMPI_Gatherv(record_messages, bytes, MPI_BYTE, messages, sizes, begins, MPI_BYTE, 0,
                 team.harness);
    PMPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MIN, team.harness);
    if (team.rank == 0)
        printf("atall: {\"messages\": [");
    for (int i = 0, from = 0; team.rank == 0 && i < all / (int)sizeof *messages; i++) {
        const struct record_message *m = &messages[i];
        while (from + 1 < team.ranks && i * (int)sizeof *messages >= begins[from + 1])
            from++;
        printf("%s[%d, %d, %d, %d, %d, %.6f, %.6f]", i ? ", " : "", from, m->is_receive, m->peer,
               m->tag, m->bytes, m->posted - start, m->complete - start);
    }
    if (team.rank == 0)
        printf("]}\n");
    free(messages);
    free(sizes);
}

/* One call after one to warm up, with every message of it noted. */
static void record_call(void)
{
    int n = (int)request.size, bad = 0;
    char *sendbuf, *recvbuf;
    double start = 0;
    reserve_arena((size_t)team.peers * (size_t)n);
    bad = !have_scratch();
    for (int i = 0; !bad && i < 2; i++) {
        next_buffers((size_t)team.peers * (size_t)n, &sendbuf, &recvbuf);
        harness_barrier();
        record_count = 0;
        recording = i > 0;
        start = record_now();
        bad = !call_bytes(sendbuf, recvbuf);
        recording = 0;
    }
    bad |= record_count > RECORD_MOST;
    PMPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, team.harness);
    if (bad)
        answer_text("error", "it fails, needs too much scratch, or has too many messages");
    else
        answer_messages(start);
}
#else
static void record_call(void)
{
    answer_text("error", "this job was built without recording");
}
#endif

#endif
