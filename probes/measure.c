/*
 * The measuring job: one long-lived MPI job that takes requests on rank 0's standard input, one
 * line each, and answers each with one JSON line behind "atall: ".
 *
 *     verify LABEL BLOCK                 is the result right? {"verdict": "ok"}
 *     time LABEL BLOCK WARMUPS CALLS     {"seconds": [...], "retransmissions": n, "timeouts": n}
 *     record LABEL BLOCK                 {"messages": [[rank, receives, peer, tag, bytes, posted,
 *                                        complete], ...]}; only where built with ATALL_RECORD
 *     flow FROM TO BYTES                 seconds for one message
 *     shift BYTES                        seconds for one message from every rank to the next one in
 *                                        the order of the switches
 *     pingpong FROM TO BYTES CALLS       {"seconds": [...]}, one way
 *     barrier CALLS                      {"seconds": [...]}
 *     quit
 *
 * BLOCK is bytes to each peer. It includes the file whose algorithms it measures (ATALL_SOURCE),
 * so that what is timed is what ships. The labels "generated" and "library" stand for that file's
 * ATALL_Alltoall with its own tables, and for the MPI library's MPI_Alltoall; "library:NAME" and
 * "library:NAME:THROTTLE" force one of the library's own algorithms, where it can be forced.
 *
 * The time of a call is the longest over all ranks, from leaving a barrier of zero-byte messages.
 */
#define _GNU_SOURCE
#ifdef ATALL_RECORD
#include "record.h"
#endif
#include ATALL_SOURCE

#include "counters.h"
#include "forced.h"
#include "oracle.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 4096, MOST_CALLS = 1000, PAIRS = 3, MOST_CACHE = 1 << 24 };

enum verb { QUIT, VERIFY, TIME, RECORD, FLOW, SHIFT, PINGPONG, BARRIER, UNKNOWN };

enum target { VARIANT, GENERATED, LIBRARY };

struct request {
    int verb, target;
    long size;         /* bytes to each peer, or of a message */
    int first, second; /* ranks; or calls to warm up and to time */
    int calls;
    struct atall_row row;
    struct forced forced; /* of the target LIBRARY */
};

static MPI_Comm harness; /* the job's own messages */
static int rank, ranks;
static struct atall_state *state; /* of the communicator that variants run on */
static unsigned calls_verified;
static struct request request;
static int counts_host; /* this rank reads its host's counters */

/* Memory for all calls: successive ones take successive parts, so that caches stay cold. */
static struct {
    char *memory;
    size_t bytes, at;
} arena;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "measure: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Dissemination barrier of zero-byte messages: the same code whatever the MPI. */
static void harness_barrier(void)
{
    for (int hop = 1; hop < ranks; hop *= 2)
        PMPI_Sendrecv(NULL, 0, MPI_BYTE, (rank + hop) % ranks, 1, NULL, 0, MPI_BYTE,
                      (rank - hop + ranks) % ranks, 1, harness, MPI_STATUS_IGNORE);
}

/* ---- what is called ---------------------------------------------------------------------- */

static int call_target(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                       int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    if (request.target == GENERATED)
        return ATALL_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    if (request.target == LIBRARY)
        return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    return atall_run(state, &request.row, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                     recvtype, (size_t)request.size);
}

/* Give the state the scratch that the emitted file would keep; false if it would refuse. All
 * ranks have it, or none. */
static int have_scratch(void)
{
    const struct atall_body *body = &atall_bodies[request.row.body];
    int have = 1;
    if (request.target == VARIANT && body->memory) {
        size_t want = body->memory((size_t)ranks, (size_t)request.size, &request.row.values);
        request.row.most = (size_t)request.size;
        have = want <= atall_row_scratch(&request.row, ranks);
        if (have && want > state->scratch_bytes) {
            free(state->scratch);
            state->scratch = (char *)malloc(want);
            state->scratch_bytes = state->scratch ? want : 0;
            have = state->scratch != NULL;
        }
    }
    PMPI_Allreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, harness);
    if (!have)
        state->scratch_bytes = 0;
    return have || body->memory_is_optional;
}

/* ---- answers ----------------------------------------------------------------------------- */

static void answer_text(const char *key, const char *text)
{
    if (rank == 0)
        printf("atall: {\"%s\": \"%s\"}\n", key, text);
}

static void answer_times(double *seconds, int n, struct counters before)
{
    long counted[2] = { 0, 0 };
    if (counts_host) {
        struct counters after = counters_read();
        counted[0] = after.retransmissions - before.retransmissions;
        counted[1] = after.timeouts - before.timeouts;
    }
    PMPI_Reduce(rank ? counted : MPI_IN_PLACE, counted, 2, MPI_LONG, MPI_SUM, 0, harness);
    PMPI_Reduce(rank ? seconds : MPI_IN_PLACE, seconds, n, MPI_DOUBLE, MPI_MAX, 0, harness);
    if (rank != 0)
        return;
    printf("atall: {\"seconds\": [");
    for (int i = 0; i < n; i++)
        printf("%s%.9f", i ? ", " : "", seconds[i]);
    printf("], \"retransmissions\": %ld, \"timeouts\": %ld}\n", counted[0], counted[1]);
}

/* ---- the verbs ---------------------------------------------------------------------------- */

static void verify(void)
{
    struct oracle_case c = { (int)request.size, (int)request.size, MPI_BYTE,
                             MPI_BYTE,          MPI_COMM_WORLD,    ++calls_verified };
    const char *verdict;
    int wrong, anywhere;
    if (!have_scratch()) {
        answer_text("verdict", "it needs more scratch memory than is kept for a communicator");
        return;
    }
    verdict = oracle_judge(call_target, &c);
    wrong = verdict != NULL;
    PMPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_MAX, harness);
    if (wrong)
        fprintf(stderr, "measure: rank %d: %s\n", rank, verdict);
    answer_text("verdict", !anywhere ? "ok" : wrong ? verdict : "a rank received wrong data");
}

/* The next pair of buffers. */
static void next_buffers(size_t bytes, char **sendbuf, char **recvbuf)
{
    size_t step = (bytes + 63) / 64 * 64;
    if (arena.at + 2 * step > arena.bytes)
        arena.at = 0;
    *sendbuf = arena.memory + arena.at;
    *recvbuf = *sendbuf + step;
    arena.at += 2 * step;
}

static void reserve_arena(size_t bytes)
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
    memset(arena.memory, rank, want);
    arena.bytes = want;
    arena.at = 0;
}

static void time_calls(int warmups, int calls)
{
    static double seconds[MOST_CALLS];
    struct counters before = { 0, 0 };
    size_t bytes = (size_t)ranks * (size_t)request.size;
    int n = (int)request.size, bad = 0;

    reserve_arena(bytes);
    if (!have_scratch()) {
        answer_text("error", "it needs more scratch memory than is kept for a communicator");
        return;
    }
    for (int i = -warmups; i < calls; i++) {
        char *sendbuf, *recvbuf;
        next_buffers(bytes, &sendbuf, &recvbuf);
        if (i == 0 && counts_host)
            before = counters_read();
        harness_barrier();
        double start = now();
        int err = call_target(sendbuf, n, MPI_BYTE, recvbuf, n, MPI_BYTE, MPI_COMM_WORLD);
        double end = now();
        bad |= err != MPI_SUCCESS;
        if (i >= 0)
            seconds[i] = end - start;
    }
    PMPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, harness);
    if (bad)
        answer_text("error", "it returned an error");
    else
        answer_times(seconds, calls, before);
}

#ifdef ATALL_RECORD
/* Rank 0 prints what every rank recorded; seconds since the earliest start. */
static void answer_messages(double start)
{
    int bytes = record_count * (int)sizeof *record_messages, *sizes, *begins, all = 0;
    struct record_message *messages = NULL;
    sizes = (int *)calloc(2 * (size_t)ranks, sizeof *sizes);
    require(sizes != NULL, "no memory");
    begins = sizes + ranks;
    PMPI_Gather(&bytes, 1, MPI_INT, sizes, 1, MPI_INT, 0, harness);
    for (int i = 0; i < ranks; i++) {
        begins[i] = all;
        all += sizes[i];
    }
    if (rank == 0)
        require((messages = (struct record_message *)malloc((size_t)all + 1)) != NULL, "no memory");
    PMPI_Gatherv(record_messages, bytes, MPI_BYTE, messages, sizes, begins, MPI_BYTE, 0, harness);
    PMPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MIN, harness);
    if (rank == 0)
        printf("atall: {\"messages\": [");
    for (int i = 0, from = 0; rank == 0 && i < all / (int)sizeof *messages; i++) {
        const struct record_message *m = &messages[i];
        while (from + 1 < ranks && i * (int)sizeof *messages >= begins[from + 1])
            from++;
        printf("%s[%d, %d, %d, %d, %d, %.6f, %.6f]", i ? ", " : "", from, m->is_receive, m->peer,
               m->tag, m->bytes, m->posted - start, m->complete - start);
    }
    if (rank == 0)
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
    reserve_arena((size_t)ranks * (size_t)n);
    bad = !have_scratch();
    for (int i = 0; !bad && i < 2; i++) {
        next_buffers((size_t)ranks * (size_t)n, &sendbuf, &recvbuf);
        harness_barrier();
        record_count = 0;
        recording = i > 0;
        start = record_now();
        bad = call_target(sendbuf, n, MPI_BYTE, recvbuf, n, MPI_BYTE, MPI_COMM_WORLD) != 0;
        recording = 0;
    }
    bad |= record_count > RECORD_MOST;
    PMPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, harness);
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

/* The ranks so many places behind and before this one, switch after switch where that is known: no
 * cable is then crossed twice. */
static void find_neighbours(int shift, int *to, int *from)
{
    const int *order = NULL;
    int number = rank;
#ifdef ATALL_EVERY
    order = state->rankings;
    number = order ? order[2 * ranks + rank] : rank;
#endif
    *to = (number + shift) % ranks;
    *from = (number - shift + ranks) % ranks;
    if (order) {
        *to = order[*to];
        *from = order[*from];
    }
}

/* Seconds until messages from each sender (all ranks, or one) have arrived and are acknowledged. */
static void stream(int from, int shift)
{
    int to = (from + shift) % ranks, sends = rank == from, receives = rank == to;
    struct counters before = { 0, 0 };
    MPI_Request requests[4];
    int posted = 0;
    if (from < 0) {
        sends = receives = 1;
        find_neighbours(shift, &to, &from);
    }
    reserve_arena(2 * (size_t)request.size);
    char *in = arena.memory, *out = in + request.size;
    if (counts_host)
        before = counters_read();
    harness_barrier();
    double start = now();
    if (receives)
        PMPI_Irecv(in, (int)request.size, MPI_BYTE, from, 2, harness, &requests[posted++]);
    if (sends)
        PMPI_Isend(out, (int)request.size, MPI_BYTE, to, 2, harness, &requests[posted++]);
    PMPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
    double seconds = now() - start;
    answer_times(&seconds, 1, before);
}

static void pingpong(int from, int to, int calls)
{
    static double seconds[MOST_CALLS];
    struct counters before = { 0, 0 };
    int n = (int)request.size;
    reserve_arena((size_t)n);
    if (counts_host)
        before = counters_read();
    harness_barrier();
    for (int i = 0; i < calls; i++) {
        double start = now();
        if (rank == from) {
            PMPI_Send(arena.memory, n, MPI_BYTE, to, 3, harness);
            PMPI_Recv(arena.memory, n, MPI_BYTE, to, 3, harness, MPI_STATUS_IGNORE);
        } else if (rank == to) {
            PMPI_Recv(arena.memory, n, MPI_BYTE, from, 3, harness, MPI_STATUS_IGNORE);
            PMPI_Send(arena.memory, n, MPI_BYTE, from, 3, harness);
        }
        seconds[i] = rank == from ? (now() - start) / 2 : 0;
    }
    answer_times(seconds, calls, before);
}

static void time_barrier(int calls)
{
    static double seconds[MOST_CALLS];
    struct counters before = { 0, 0 };
    for (int i = 0; i < calls; i++) {
        harness_barrier();
        double start = now();
        PMPI_Barrier(harness);
        seconds[i] = now() - start;
    }
    answer_times(seconds, calls, before);
}

/* ---- requests ----------------------------------------------------------------------------- */

static int within(long value, long least, long most)
{
    return value >= least && value <= most;
}

static int parse_target(const char *label)
{
    static const char library[] = "library";
    request.target = strcmp(label, "generated") == 0                    ? GENERATED
                     : strncmp(label, library, sizeof library - 1) == 0 ? LIBRARY
                                                                        : VARIANT;
    request.row = (struct atall_row){ 0 };
    if (request.target == LIBRARY)
        return forced_parse(label + sizeof library - 1, &request.forced);
    return request.target != VARIANT || (atall_parse_label(label, &request.row) &&
                                         atall_body_serves(request.row.body, &state->place));
}

static int are_two_ranks(int from, int to)
{
    return within(from, 0, ranks - 1) && within(to, 0, ranks - 1) && from != to;
}

/* The words behind a verb, into the request: true if they are what the verb takes. */
static int parse_verify(const char *line)
{
    char label[LINE];
    return sscanf(line, "%*s %s %ld", label, &request.size) == 2 && parse_target(label);
}

static int parse_time(const char *line)
{
    char label[LINE];
    return sscanf(line, "%*s %s %ld %d %d", label, &request.size, &request.first,
                  &request.second) == 4 &&
           parse_target(label) && within(request.first, 0, MOST_CALLS) &&
           within(request.second, 1, MOST_CALLS);
}

static int parse_flow(const char *line)
{
    return sscanf(line, "%*s %d %d %ld", &request.first, &request.second, &request.size) == 3 &&
           are_two_ranks(request.first, request.second);
}

static int parse_shift(const char *line)
{
    return sscanf(line, "%*s %ld", &request.size) == 1;
}

static int parse_pingpong(const char *line)
{
    return sscanf(line, "%*s %d %d %ld %d", &request.first, &request.second, &request.size,
                  &request.calls) == 4 &&
           are_two_ranks(request.first, request.second) && within(request.calls, 1, MOST_CALLS);
}

static int parse_barrier(const char *line)
{
    return sscanf(line, "%*s %d", &request.calls) == 1 && within(request.calls, 1, MOST_CALLS);
}

static const struct {
    const char *name;
    int verb;
    int (*parse)(const char *line);
} verbs[] = {
    { "verify", VERIFY, parse_verify },    { "time", TIME, parse_time },
    { "flow", FLOW, parse_flow },          { "shift", SHIFT, parse_shift },
    { "barrier", BARRIER, parse_barrier }, { "pingpong", PINGPONG, parse_pingpong },
    { "record", RECORD, parse_verify },
};

/* Rank 0: one line of standard input as a request; its end is the driver's, and ours. */
static void read_request(void)
{
    char line[LINE], word[LINE];
    request = (struct request){ .verb = UNKNOWN, .size = 1 };
    if (!fgets(line, sizeof line, stdin) || sscanf(line, "%s", word) != 1 ||
        strcmp(word, "quit") == 0) {
        request.verb = QUIT;
        return;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(word, verbs[i].name) == 0 && verbs[i].parse(line) &&
            within(request.size, 1, 1 << 30))
            request.verb = verbs[i].verb;
}

static void serve(void)
{
    do {
        if (rank == 0)
            read_request();
        PMPI_Bcast(&request, (int)sizeof request, MPI_BYTE, 0, harness);
        forced_apply(request.forced);
        switch (request.verb) {
        case VERIFY:
            verify();
            break;
        case TIME:
            time_calls(request.first, request.second);
            break;
        case RECORD:
            record_call();
            break;
        case FLOW:
            stream(request.first, (request.second - request.first + ranks) % ranks);
            break;
        case SHIFT:
            stream(-1, 1);
            break;
        case PINGPONG:
            pingpong(request.first, request.second, request.calls);
            break;
        case BARRIER:
            time_barrier(request.calls);
            break;
        case UNKNOWN:
            answer_text("error", "not a request of this job");
            break;
        default:
            break;
        }
        if (rank == 0)
            fflush(stdout);
    } while (request.verb != QUIT);
}

/* Rank 0: print the rankings that number the ranks of this job in a way of their own. Only where
 * ATALL_SOURCE has every algorithm has it rankings for sure. */
static void print_rankings(void)
{
    int is_switch_own = 0, is_interleaved_own = 0;
#ifdef ATALL_EVERY
    const int *order = state->rankings;
    size_t bytes = (size_t)ranks * sizeof *order;
    for (int i = 0; order && i < ranks; i++) {
        is_switch_own |= order[i] != i;
        is_interleaved_own |= order[ranks + i] != i;
    }
    is_interleaved_own = is_interleaved_own && memcmp(order, order + ranks, bytes) != 0;
#endif
    printf("\"rankings\": [\"index\"%s%s]", is_switch_own ? ", \"switch\"" : "",
           is_interleaved_own ? ", \"interleaved\"" : "");
}

/* Say who is here: the library, and each rank's host; the first rank of a host counts for it. */
static void introduce(void)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    char name[MPI_MAX_PROCESSOR_NAME] = "", *names;
    int length;
    MPI_Get_processor_name(name, &length);
    names = (char *)calloc((size_t)ranks, sizeof name);
    require(names != NULL, "no memory");
    PMPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, harness);
    counts_host = 1;
    for (int i = 0; i < rank; i++)
        counts_host = counts_host && strcmp(names + (size_t)i * sizeof name, name) != 0;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\r\n")] = '\0';
    if (rank == 0) {
        printf("atall: {\"library\": \"");
        for (const char *c = library; *c; c++)
            putchar(*c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c);
        printf("\", \"hosts\": [");
        for (int i = 0; i < ranks; i++)
            printf("%s\"%s\"", i ? ", " : "", names + (size_t)i * sizeof name);
        printf("], ");
        print_rankings();
#ifdef ATALL_EVERY
        printf(", \"phases\": %d, \"least\": %d", state->schedule.phases, state->schedule.least);
#endif
        printf(", \"forced\": [");
        forced_print();
        printf("]}\n");
        fflush(stdout);
    }
    free(names);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever started us is gone: so are we */
    MPI_Init(&argc, &argv);
    forced_start();
    MPI_Comm_dup(MPI_COMM_WORLD, &harness);
    MPI_Comm_rank(harness, &rank);
    MPI_Comm_size(harness, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    require(atall_get_state(MPI_COMM_WORLD, &state) == MPI_SUCCESS && state != &atall_unserved,
            "the communicator's state could not be made");
    request = (struct request){ .target = LIBRARY, .size = 1 };
    time_calls(1, 1); /* connects every pair; its answer precedes the introduction */
    introduce();
    serve();
    forced_end();
    MPI_Finalize();
    if (rank == 0)
        printf("atall: {\"farewell\": true}\n");
    return 0;
}
