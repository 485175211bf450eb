/*
 * The measuring job: one long-lived MPI job that takes requests on rank 0's standard input, one
 * line each, and answers each with one JSON line behind "atall: ".
 *
 *     grid ROWS COLUMNS                  from here on communicators are those of a process grid
 *     ranks N                            from here on the first N ranks are at work; who they are.
 *                                        Of a grid: all ranks, in communicators of N at once
 *     verify LABEL BLOCK                 is the result right? {"verdict": "ok"}
 *     time LABEL BLOCK WARMUPS CALLS SCHEME
 *                                        {"seconds": [...], "resent": [[rank, segments], ...],
 *                                        "timeouts": n}; schemes: see timing.h
 *     record LABEL BLOCK                 {"messages": [[rank, receives, peer, tag, bytes, posted,
 *                                        complete], ...]}; only where built with ATALL_RECORD
 *     clocks BARRIERS                    {"error": s, "skew": s, "offsets": [...], "drifts": [...]}
 *     quiet MILLISECONDS                 who else is at work? see quiet.h
 *     flow FROM TO BYTES                 seconds for one message
 *     shift BYTES                        seconds for one message from every rank to the next one in
 *                                        the order of the switches
 *     pingpong FROM TO BYTES CALLS       {"seconds": [...]}, one way
 *     barrier KIND CALLS                 {"seconds": [...]}: of the library, or ring, dissemination
 *                                        or tournament as bodies have them
 *     delayed FROM TO BYTES MICROSECONDS CALLS
 *                                        a receiver that comes late: see points.h
 *     isends FROM TO BYTES CALLS         {"start": [...], "all": [s]}
 *     exchange FROM TO BYTES CALLS       {"seconds": [s]}: both ways at once, so often in a row
 *     neighbours BYTES CALLS             the same of all ranks, each with the next and the one
 *                                        before
 *     crowd BYTES CALLS                  the same of every rank with every other at once
 *     rates BYTES                        {"seconds": [...]}: a message from each rank to the next
 *     burst SENDERS BYTES CALLS          that many ranks send to rank 0 at once
 *     broadcast TREE BYTES SEGMENT WARMUPS CALLS
 *                                        {"seconds": [...]}: see broadcast.h
 *     copies BYTES CALLS ALL             in memory, of rank 0 alone (0) or of all ranks at once (1)
 *     quit
 *
 * BLOCK is bytes to each peer. It includes the file whose algorithms it measures (ATALL_SOURCE),
 * so that what is timed is what ships. The labels "generated" and "library" stand for that file's
 * ATALL_Alltoall with its own tables, and for the MPI library's MPI_Alltoall; "library:NAME" and
 * "library:NAME:THROTTLE" force one of the library's own algorithms, where it can be forced.
 */
#define _GNU_SOURCE
#ifdef ATALL_RECORD
#include "record.h"
#endif
#include ATALL_SOURCE

#include "broadcast.h"
#include "forced.h"
#include "neighbours.h"
#include "oracle.h"
#include "points.h"
#include "quiet.h"
#include "timing.h"

#include <signal.h>
#include <sys/prctl.h>

enum { LINE = 4096, MOST_TEAMS = 32 };

enum verb {
    QUIT,
    GRID,
    RANKS,
    VERIFY,
    TIME,
    RECORD,
    CLOCKS,
    LOOK,
    FLOW,
    SHIFT,
    PINGPONG,
    BARRIER,
    DELAYED,
    ISENDS,
    EXCHANGE,
    NEIGHBOURS,
    CROWD,
    PAIRS_AT_ONCE,
    RATES,
    BURST,
    BROADCAST,
    COPIES,
    UNKNOWN
};

enum target { VARIANT, GENERATED, LIBRARY };

struct request {
    int verb, target, scheme;
    long size;         /* bytes to each peer, or of a message */
    int first, second; /* ranks; or calls to warm up and to time */
    int calls, delay;  /* microseconds */
    int tree, segment; /* of a broadcast */
    unsigned number;   /* of the request: what is sent depends on it */
    struct atall_row row;
    struct forced forced; /* of the target LIBRARY */
};

static struct team teams[MOST_TEAMS]; /* the first is all ranks */
static int teams_made;
static int rows, columns; /* of the process grid, if there is one */
static struct request request;

/* ---- what is called ---------------------------------------------------------------------- */

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
    if (request.verb == BROADCAST)
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

/* ---- the verbs ---------------------------------------------------------------------------- */

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

static void find_neighbours(int *to, int *from)
{
    const int *rankings = NULL;
#ifdef ATALL_EVERY
    rankings = rows ? NULL : team.mine[0].state->rankings.order;
#endif
    neighbours_of(rankings, team.ranks, team.rank, to, from);
}

/* The rank half of all away; nobody for the last one of an odd number. */
static int find_opposite(void)
{
    const int half = team.ranks / 2;
    return team.rank >= 2 * half ? MPI_PROC_NULL : (team.rank + half) % (2 * half);
}

/* ---- barriers ------------------------------------------------------------------------------- */

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
                                         atall_body_serves(request.row.body, team.mine[0].state));
}

static int are_two_ranks(int from, int to)
{
    return within(from, 0, team.ranks - 1) && within(to, 0, team.ranks - 1) && from != to;
}

/* The words behind a verb, into the request: true if they are what the verb takes. */
static int parse_verify(const char *line)
{
    char label[LINE];
    return sscanf(line, "%*s %s %ld", label, &request.size) == 2 && parse_target(label);
}

static int parse_time(const char *line)
{
    char label[LINE], scheme[LINE];
    if (sscanf(line, "%*s %s %ld %d %d %s", label, &request.size, &request.first, &request.second,
               scheme) != 5)
        return 0;
    for (request.scheme = 0; request.scheme < SCHEMES; request.scheme++)
        if (strcmp(scheme, scheme_names[request.scheme]) == 0)
            break;
    return request.scheme < SCHEMES && parse_target(label) &&
           within(request.first, 0, MOST_CALLS) && within(request.second, 1, MOST_CALLS);
}

static int parse_flow(const char *line)
{
    return sscanf(line, "%*s %d %d %ld", &request.first, &request.second, &request.size) == 3 &&
           are_two_ranks(request.first, request.second);
}

static int parse_size(const char *line)
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
    char kind[LINE];
    if (sscanf(line, "%*s %s %d", kind, &request.calls) != 2)
        return 0;
    for (request.first = 0; request.first < BARRIERS; request.first++)
        if (strcmp(kind, barriers[request.first].name) == 0)
            break;
    return request.first < BARRIERS && within(request.calls, 1, MOST_CALLS);
}

static int parse_calls(const char *line)
{
    return sscanf(line, "%*s %d", &request.calls) == 1 && within(request.calls, 1, MOST_CALLS);
}

static int parse_neighbours(const char *line)
{
    return sscanf(line, "%*s %ld %d", &request.size, &request.calls) == 2 &&
           within(request.calls, 1, MOST_CALLS);
}

static int parse_delayed(const char *line)
{
    return sscanf(line, "%*s %d %d %ld %d %d", &request.first, &request.second, &request.size,
                  &request.delay, &request.calls) == 5 &&
           are_two_ranks(request.first, request.second) && within(request.calls, 1, MOST_CALLS) &&
           within(request.delay, 0, 1000000);
}

static int parse_burst(const char *line)
{
    return sscanf(line, "%*s %d %ld %d", &request.first, &request.size, &request.calls) == 3 &&
           within(request.first, 1, team.ranks - 1) && within(request.calls, 1, MOST_CALLS);
}

static int parse_copies(const char *line)
{
    return sscanf(line, "%*s %ld %d %d", &request.size, &request.calls, &request.first) == 3 &&
           within(request.calls, 1, MOST_CALLS);
}

static int parse_broadcast(const char *line)
{
    char name[LINE];
    if (sscanf(line, "%*s %s %ld %d %d %d", name, &request.size, &request.segment, &request.first,
               &request.second) != 5)
        return 0;
    for (request.tree = 0; request.tree < BROADCAST_TREES; request.tree++)
        if (strcmp(name, broadcast_names[request.tree]) == 0)
            break;
    return request.tree < BROADCAST_TREES && request.segment >= 1 &&
           within(request.first, 0, MOST_CALLS) && within(request.second, 1, MOST_CALLS);
}

static int parse_ranks(const char *line)
{
    return sscanf(line, "%*s %d", &request.first) == 1 &&
           within(request.first, 1, teams[0].ranks) && teams_made < MOST_TEAMS &&
           (!rows || request.first == rows || request.first == columns);
}

static int parse_grid(const char *line)
{
    return sscanf(line, "%*s %d %d", &request.first, &request.second) == 2 &&
           within(request.first, 1, teams[0].ranks) &&
           within(request.second, 1, teams[0].ranks / request.first) && teams_made == 1;
}

/* clang-format off */
static const struct {
    const char *name;
    int verb;
    int (*parse)(const char *line);
} verbs[] = {
    { "grid", GRID, parse_grid },
    { "ranks", RANKS, parse_ranks },
    { "verify", VERIFY, parse_verify },
    { "time", TIME, parse_time },
    { "record", RECORD, parse_verify },
    { "clocks", CLOCKS, parse_calls },
    { "quiet", LOOK, parse_calls },
    { "flow", FLOW, parse_flow },
    { "shift", SHIFT, parse_size },
    { "pingpong", PINGPONG, parse_pingpong },
    { "barrier", BARRIER, parse_barrier },
    { "delayed", DELAYED, parse_delayed },
    { "isends", ISENDS, parse_pingpong },
    { "exchange", EXCHANGE, parse_pingpong },
    { "neighbours", NEIGHBOURS, parse_neighbours },
    { "crowd", CROWD, parse_neighbours },
    { "pairs", PAIRS_AT_ONCE, parse_neighbours },
    { "rates", RATES, parse_size },
    { "burst", BURST, parse_burst },
    { "broadcast", BROADCAST, parse_broadcast },
    { "copies", COPIES, parse_copies },
};
/* clang-format on */

/* Rank 0: one line of standard input as a request; its end is the driver's, and ours. */
static void read_request(void)
{
    static unsigned read;
    char line[LINE], word[LINE];
    request = (struct request){ .verb = UNKNOWN, .size = 1, .number = ++read };
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

static void do_request(void)
{
    const int first = request.first, second = request.second, bytes = (int)request.size;
    int to, from;
    forced_apply(request.forced);
    switch (request.verb) {
    case VERIFY:
        verify();
        break;
    case TIME:
        time_target();
        break;
    case RECORD:
        record_call();
        break;
    case CLOCKS:
        clocks_answer(request.calls);
        break;
    case LOOK:
        quiet_answer(1e-3 * request.calls);
        break;
    case FLOW:
        time_stream(team.rank == first, second, team.rank == second, first, bytes);
        break;
    case SHIFT:
        find_neighbours(&to, &from);
        time_stream(1, to, 1, from, bytes);
        break;
    case PINGPONG:
        time_pingpong(first, second, bytes, request.calls);
        break;
    case BARRIER:
        time_barrier(barriers[request.first].wait, request.calls);
        break;
    case DELAYED:
        time_delayed(first, second, bytes, 1e-6 * request.delay, request.calls);
        break;
    case ISENDS:
        time_isends(first, second, bytes, request.calls);
        break;
    case EXCHANGE:
        to = team.rank == first ? second : team.rank == second ? first : MPI_PROC_NULL;
        time_exchange(to, to, bytes, request.calls);
        break;
    case NEIGHBOURS:
        find_neighbours(&to, &from);
        time_exchange(to, from, bytes, request.calls);
        break;
    case CROWD:
        time_crowd(bytes, request.calls);
        break;
    case PAIRS_AT_ONCE:
        to = find_opposite();
        time_exchange(to, to, bytes, request.calls);
        break;
    case RATES:
        find_neighbours(&to, &from);
        time_rates(to, from, bytes);
        break;
    case BURST:
        time_burst(first, bytes, request.calls);
        break;
    case BROADCAST:
        time_broadcast();
        break;
    case COPIES:
        time_copies(bytes, request.calls, first);
        break;
    case UNKNOWN:
        answer_text("error", "not a request of this job");
        break;
    default:
        break;
    }
}

/* ---- who is here -------------------------------------------------------------------------- */

/* Rank 0: print the rankings that number the ranks of a communicator in a way of their own, and
 * the phases that are planned for its own. Only where ATALL_SOURCE has every algorithm has it these
 * for sure. */
static void print_plans(void)
{
    int own[2] = { 0, 0 }; /* switch, interleaved */
#ifdef ATALL_EVERY
    for (int i = 0; i < team.count; i++) {
        const int *order = team.mine[i].state->rankings.order, ranks = team.peers;
        int by_switch = 0, interleaved = 0;
        for (int j = 0; order && j < ranks; j++) {
            by_switch |= order[j] != j;
            interleaved |= order[ranks + j] != j;
        }
        own[0] |= by_switch;
        own[1] |= interleaved && memcmp(order, order + ranks, (size_t)ranks * sizeof *order) != 0;
    }
#endif
    PMPI_Allreduce(MPI_IN_PLACE, own, 2, MPI_INT, MPI_MAX, team.harness);
    if (team.rank != 0)
        return;
#ifdef ATALL_EVERY
    printf("\"phases\": %d, \"least\": %d, ", team.mine[0].state->schedule.phases,
           team.mine[0].state->schedule.least);
#endif
    printf("\"rankings\": [\"index\"%s%s], ", own[0] ? ", \"switch\"" : "",
           own[1] ? ", \"interleaved\"" : "");
}

static void print_library(void)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\r\n")] = '\0';
    printf("\"library\": \"");
    for (const char *c = library; *c; c++)
        putchar(*c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c);
    printf("\"");
}

/* Who the team is: the library, each rank's host, what is planned, what can be forced. Settles
 * which ranks speak for their hosts. */
static void introduce(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", *names;
    int length;
    MPI_Get_processor_name(name, &length);
    names = (char *)calloc((size_t)team.ranks, sizeof name);
    require(names != NULL, "no memory");
    PMPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, team.harness);
    team.speaks_for_host = 1;
    team.ranks_on_host = 0;
    for (int i = 0; i < team.ranks; i++) {
        int is_here = strcmp(names + (size_t)i * sizeof name, name) == 0;
        team.ranks_on_host += is_here;
        if (is_here && i < team.rank)
            team.speaks_for_host = 0;
    }
    if (team.rank == 0) {
        printf("atall: {");
        print_library();
        printf(", \"hosts\": [");
        for (int i = 0; i < team.ranks; i++)
            printf("%s\"%s\"", i ? ", " : "", names + (size_t)i * sizeof name);
        printf("], ");
    }
    print_plans();
    if (team.rank == 0) {
        printf("\"forced\": [");
        forced_print();
        printf("]}\n");
    }
    free(names);
}

/* All ranks of the team: the communicator of those of one color, with its state. */
static void make_communicator(struct team *made, int color)
{
    struct communicator *one = &made->mine[made->count++];
    struct atall_process *process;
    MPI_Comm_split(made->harness, color, 0, &one->comm);
    MPI_Comm_set_errhandler(one->comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(one->comm, &made->peers);
    require(atall_get_process(&process) == MPI_SUCCESS &&
                atall_make_state(process, one->comm, &one->state) == MPI_SUCCESS &&
                !one->state->unserved,
            "the communicator's state could not be made");
}

/* All ranks of the job: make the team of the first so many of them, or of a grid's communicators
 * of so many, once. */
static void make_team(int ranks)
{
    struct team *made = &teams[teams_made++];
    int first = rows ? rows * columns : ranks;
    int takes_part = teams[0].rank < first || made == teams;
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, 0, &made->harness);
    made->rank = teams[0].rank;
    made->peers = ranks;
    if (!takes_part)
        return;
    MPI_Comm_rank(made->harness, &made->rank);
    MPI_Comm_size(made->harness, &made->ranks);
    if (!rows)
        make_communicator(made, 0);
    if (rows && ranks == columns)
        make_communicator(made, made->rank / columns);
    if (rows && ranks == rows)
        make_communicator(made, made->rank % columns);
}

static void choose_team(int ranks)
{
    int i = rows > 0; /* the first is no team of a grid */
    while (i < teams_made && teams[i].peers != ranks)
        i++;
    if (i == teams_made)
        make_team(ranks);
    team = teams[i];
    clocks_forget();
    if (team.harness != MPI_COMM_NULL) {
        introduce();
        teams[i] = team;
    }
}

static void choose_grid(int of_rows, int of_columns)
{
    rows = of_rows;
    columns = of_columns;
    if (teams[0].rank == 0)
        printf("atall: {\"grid\": [%d, %d]}\n", rows, columns);
}

static void serve(void)
{
    do {
        if (teams[0].rank == 0)
            read_request();
        PMPI_Bcast(&request, (int)sizeof request, MPI_BYTE, 0, teams[0].harness);
        if (request.verb == GRID)
            choose_grid(request.first, request.second);
        else if (request.verb == RANKS)
            choose_team(request.first);
        else if (team.harness != MPI_COMM_NULL)
            do_request();
        if (teams[0].rank == 0)
            fflush(stdout);
    } while (request.verb != QUIT);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever started us is gone: so are we */
    MPI_Init(&argc, &argv);
    prctl(PR_SET_TIMERSLACK, 1); /* naps end when they should */
    forced_start();
    make_team(0);
    team = teams[0];
    request = (struct request){ .target = LIBRARY, .size = 1 };
    reserve_arena((size_t)team.ranks);
    require(call_bytes(arena.memory, arena.memory + team.ranks), "the first all-to-all fails");
    introduce(); /* every pair is connected now */
    fflush(stdout);
    teams[0] = team;
    serve();
    forced_end();
    MPI_Finalize();
    if (teams[0].rank == 0)
        printf("atall: {\"farewell\": true}\n");
    return 0;
}
