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
 *                                        a receiver that comes late: see messages.h
 *     isends FROM TO BYTES CALLS         {"start": [...], "all": [s]}
 *     exchange FROM TO BYTES CALLS       {"seconds": [s]}: both ways at once, so often in a row
 *     neighbours BYTES CALLS             the same of all ranks, each with the next and the one
 *                                        before
 *     crowd BYTES CALLS                  the same of every rank with every other at once
 *     rates BYTES                        {"seconds": [...]}: a message from each rank to the next
 *     burst SENDERS BYTES CALLS          that many ranks send to rank 0 at once
 *     copies BYTES CALLS ALL             in memory, of rank 0 alone (0) or of all ranks at once (1)
 *     quit
 *
 * BLOCK is bytes to each peer. Included before are the collectives that it knows (collectives/),
 * and with them the file whose algorithms it measures (ATALL_SOURCE). The labels "generated" and
 * "library" stand for that file's ATALL_Alltoall with its own tables, and for the MPI library's
 * MPI_Alltoall; "library:NAME" and "library:NAME:THROTTLE" force one of the library's own
 * algorithms, where it can be forced.
 */
#include "neighbours.h"
#include "messages.h"
#include "quiet.h"
#include "requests.h"

#include <signal.h>
#include <sys/prctl.h>

/* ---- what each verb does ------------------------------------------------------------------- */

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

static void run_clocks(void)
{
    clocks_answer(request.calls);
}

static void run_quiet(void)
{
    quiet_answer(1e-3 * request.calls);
}

static void run_flow(void)
{
    const int from = request.first, to = request.second;
    time_stream(team.rank == from, to, team.rank == to, from, (int)request.size);
}

static void run_shift(void)
{
    int to, from;
    find_neighbours(&to, &from);
    time_stream(1, to, 1, from, (int)request.size);
}

static void run_pingpong(void)
{
    time_pingpong(request.first, request.second, (int)request.size, request.calls);
}

static void run_barrier(void)
{
    time_barrier(barriers[request.first].wait, request.calls);
}

static void run_delayed(void)
{
    time_delayed(request.first, request.second, (int)request.size, 1e-6 * request.delay,
                 request.calls);
}

static void run_isends(void)
{
    time_isends(request.first, request.second, (int)request.size, request.calls);
}

static void run_exchange(void)
{
    const int peer = team.rank == request.first    ? request.second
                     : team.rank == request.second ? request.first
                                                   : MPI_PROC_NULL;
    time_exchange(peer, peer, (int)request.size, request.calls);
}

static void run_neighbours(void)
{
    int to, from;
    find_neighbours(&to, &from);
    time_exchange(to, from, (int)request.size, request.calls);
}

static void run_crowd(void)
{
    time_crowd((int)request.size, request.calls);
}

static void run_pairs(void)
{
    const int peer = find_opposite();
    time_exchange(peer, peer, (int)request.size, request.calls);
}

static void run_rates(void)
{
    int to, from;
    find_neighbours(&to, &from);
    time_rates(to, from, (int)request.size);
}

static void run_burst(void)
{
    time_burst(request.first, (int)request.size, request.calls);
}

static void run_copies(void)
{
    time_copies((int)request.size, request.calls, request.first);
}

static void run_grid(void)
{
    choose_grid(request.first, request.second);
}

static void run_ranks(void)
{
    choose_team(request.first, request.members);
}

/* clang-format off */
static const struct {
    const char *name;
    int (*parse)(const char *line);
    void (*run)(void);
    int takes_all; /* all ranks of the job have it done, not only those at work */
} verbs[] = {
    { "grid", parse_grid, run_grid, 1 },
    { "ranks", parse_ranks, run_ranks, 1 },
    { "verify", parse_verify, verify, 0 },
    { "time", parse_time, time_target, 0 },
    { "record", parse_verify, record_call, 0 },
    { "clocks", parse_calls, run_clocks, 0 },
    { "quiet", parse_calls, run_quiet, 0 },
    { "flow", parse_flow, run_flow, 0 },
    { "shift", parse_size, run_shift, 0 },
    { "pingpong", parse_pingpong, run_pingpong, 0 },
    { "barrier", parse_barrier, run_barrier, 0 },
    { "delayed", parse_delayed, run_delayed, 0 },
    { "isends", parse_pingpong, run_isends, 0 },
    { "exchange", parse_pingpong, run_exchange, 0 },
    { "neighbours", parse_neighbours, run_neighbours, 0 },
    { "crowd", parse_neighbours, run_crowd, 0 },
    { "pairs", parse_neighbours, run_pairs, 0 },
    { "rates", parse_size, run_rates, 0 },
    { "burst", parse_burst, run_burst, 0 },
    { "copies", parse_copies, run_copies, 0 },
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
    for (int i = 0; i < (int)(sizeof verbs / sizeof verbs[0]); i++)
        if (strcmp(word, verbs[i].name) == 0 && verbs[i].parse(line) &&
            within(request.size, 1, 1 << 30))
            request.verb = i;
}

static void do_request(void)
{
    forced_apply(request.forced);
    if (request.verb >= 0)
        verbs[request.verb].run();
    else if (request.verb == UNKNOWN)
        answer_text("error", "not a request of this job");
}

static void serve(void)
{
    do {
        if (teams[0].rank == 0)
            read_request();
        PMPI_Bcast(&request, (int)sizeof request, MPI_BYTE, 0, teams[0].harness);
        const int takes_all = request.verb >= 0 && verbs[request.verb].takes_all;
        if (takes_all || team.harness != MPI_COMM_NULL)
            do_request();
        if (teams[0].rank == 0 || team.rank == 0)
            fflush(stdout);
    } while (request.verb != QUIT);
}

int main(int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever started us is gone: so are we */
    MPI_Init(&argc, &argv);
    prctl(PR_SET_TIMERSLACK, 1); /* naps end when they should */
    forced_start();
    make_team(0, "");
    team = teams[0];
    request = (struct request){ .collective = collective_of(""), .target = LIBRARY, .size = 1 };
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
