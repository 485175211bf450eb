/*
 * What the job calls: a variant of the emitted file, the whole of that, or the library's own;
 * whether its result is right, how long it takes, and which messages it sends. How each
 * collective is called and judged is in collectives/.
 */
#ifndef TARGETS_H
#define TARGETS_H

#include "subject.h"

#include "forced.h"
#include "timing.h"

enum { QUIT = -1, UNKNOWN = -2 };

enum target { VARIANT, GENERATED, LIBRARY };

struct request {
    int verb; /* its place in the table of measure.c; or one of those above */
    int target, scheme;
    long size;             /* bytes to each peer, or of a message */
    int first, second;     /* ranks; or calls to warm up and to time */
    int calls, delay;      /* microseconds */
    int collective;        /* its place among all */
    unsigned number;       /* of the request: what is sent depends on it */
    char members[MEMBERS]; /* of a team */
    struct atall_row row;
    struct forced forced; /* of the target LIBRARY */
};

static struct request request;

/* A collective operation, as a file of collectives/ has it. */
struct collective {
    const char *prefix; /* how labels of its variants begin */
    int (*call)(struct communicator *on, char *sendbuf, char *recvbuf);
    const char *(*judge)(struct communicator *on); /* what is wrong on this rank; NULL: nothing */
    size_t (*bytes)(void);                         /* of each of a rank's buffers */
};

enum { MOST_COLLECTIVES = 16 };

static const struct collective *collectives[MOST_COLLECTIVES];
static int collective_count;

static inline void add_collective(const struct collective *one)
{
    if (collective_count == MOST_COLLECTIVES)
        abort();
    collectives[collective_count++] = one;
}

/* The collective whose variant has a label: the longest prefix tells. */
static int collective_of(const char *label)
{
    int best = 0;
    size_t longest = 0;
    for (int i = 0; i < collective_count; i++) {
        const size_t length = strlen(collectives[i]->prefix);
        if (length >= longest && strncmp(label, collectives[i]->prefix, length) == 0) {
            best = i;
            longest = length;
        }
    }
    return best;
}

/* A variant on buffers of bytes. */
static int call_variant(struct communicator *on, char *sendbuf, char *recvbuf)
{
    const int n = (int)request.size;
    return atall_run(on->state, &request.row, sendbuf, n, MPI_BYTE, recvbuf, n, MPI_BYTE,
                     (size_t)n);
}

static int call_bytes(char *sendbuf, char *recvbuf)
{
    int good = 1;
    for (int i = 0; i < team.count; i++)
        good &=
            collectives[request.collective]->call(&team.mine[i], sendbuf, recvbuf) == MPI_SUCCESS;
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
    const char *verdict = NULL, *other;
    int wrong, anywhere;
    if (!have_scratch()) {
        answer_text("verdict", too_much_scratch);
        return;
    }
    for (int i = 0; i < team.count; i++) { /* all of them: others may have found nothing */
        other = collectives[request.collective]->judge(&team.mine[i]);
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
        time_calls(call_bytes, collectives[request.collective]->bytes(),
                   (enum scheme)request.scheme, request.first, request.second);
    else
        answer_text("error", too_much_scratch);
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
    const size_t bytes = collectives[request.collective]->bytes();
    int bad = 0;
    char *sendbuf, *recvbuf;
    double start = 0;
    reserve_arena(bytes);
    bad = !have_scratch();
    for (int i = 0; !bad && i < 2; i++) {
        next_buffers(bytes, &sendbuf, &recvbuf);
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
