/*
 * The schedule model: predicts how long calls take by running them in virtual time (Vadhiyar, Fagg
 * and Dongarra 4.3). One process; it takes lines on standard input. The cluster first:
 *
 *     node PARENT RATE ROOM BURST
 *         a switch or host, parents first, -1: the top; bytes a second on its cable, bytes that a
 *         port of it queues (0: any number), and that pass at once after a pause
 *
 *     rank NODE HOST
 *         where the next rank is
 *
 *     cost BYTES SEND RECEIVE LATENCY MODE FIRST MIDDLE SPIKE GAPS BESIDE
 *         of a message (struct cost in virtual_ranks.h)
 *
 *     copy SECONDS
 *         of a byte
 *
 *     buffered BYTES
 *         that a sender's socket holds
 *
 *     processors N
 *         that all ranks share; 0: each has its own
 *
 *     wake SECONDS
 *         of work before a rank that waited goes on
 *
 *     timeout SECONDS
 *         of TCP's shortest before it sends again
 *
 * then, each answered with one JSON line {"seconds": [...], "resent": n, "timeouts": n}:
 *
 *     lossless N
 *         1: from here on ports have room for everything; 0: no more
 *
 *     faster TIMES
 *         from here on links are so many times faster than they were told to be, and time-outs so
 *         many times shorter
 *
 *     predict LABEL BLOCK WARMUPS CALLS
 *         calls of one variant; BLOCK is bytes to each peer
 *
 *     pingpong FROM TO BYTES CALLS
 *         half of the time there and back
 *
 *     neighbours BYTES ROW CALLS
 *         so many exchanges in a row of every rank with the next one and the one before, switch
 *         after switch: seconds of one
 *
 *     crowd BYTES ROW CALLS
 *         the same of every rank with every other at once
 *
 *     burst SENDERS BYTES CALLS
 *         that many ranks send to rank 0 at once
 *
 * It includes the file whose algorithms it runs (ATALL_SOURCE), as the measuring job does.
 */
#define _GNU_SOURCE
#include "virtual_cluster.h"
#include "virtual_setup.h"

#define memcpy(to, from, bytes) virtual_copy(to, from, bytes)
#define memset(to, value, bytes) virtual_set(to, value, bytes)
#include ATALL_SOURCE
#undef memcpy
#undef memset

#include "neighbours.h"

enum { LINE = 4096, MOST_CALLS = 1000, MOST_BYTES = 1 << 30 };

enum verb { PREDICT, PINGPONG, NEIGHBOURS, CROWD, BURST };

static struct {
    enum verb verb;
    struct atall_row row;
    int size, from, to, row_length, senders, warmups, calls;
} request;

static MPI_Comm everybody;
static struct atall_state **states;
static double took[MOST_CALLS]; /* by the slowest rank, seconds */
static bool failed;

static void join(int rank)
{
    struct atall_process *process;
    failed |= atall_get_process(&process) != MPI_SUCCESS ||
              atall_make_state(process, everybody, &states[rank]) != MPI_SUCCESS ||
              atall_set_up_schedule(states[rank], states[rank]->comm) != MPI_SUCCESS ||
              states[rank]->unserved;
}

/* What comes before the first prediction. */
static void start(void)
{
    int *all = (int *)obtain((size_t)world.ranks * sizeof *all);
    make_flows();
    world.worker = (struct worker *)obtain(2 * (size_t)world.ranks * sizeof *world.worker);
    world.idle = costs.processors ? costs.processors : 2 * world.ranks;
    world.blocks = (char *)mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (world.blocks == MAP_FAILED)
        give_up("no addresses");
    for (int r = 0; r < world.ranks; r++) {
        all[r] = r;
        world.rank[r].stack = (char *)obtain(STACK);
    }
    everybody = new_comm(all, world.ranks);
    free(all);
    states = (struct atall_state **)obtain((size_t)world.ranks * sizeof *states);
    if (!run_ranks(join) || failed)
        give_up("the communicator's state could not be made");
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Scratch of a rank's own: some bodies keep more in it than blocks. */
static void give_scratch(int rank)
{
    struct atall_state *state = states[rank];
    size_t want = atall_wanted(state, &request.row, (size_t)request.size);
    request.row.most = (size_t)request.size;
    if (want > atall_row_scratch(state, &request.row)) {
        want = 0;
        failed |= !atall_spares_scratch(state, &request.row);
    }
    state->scratch = world.blocks + ROOM / 2 + (size_t)rank * 2 * ATALL_SCRATCH_MOST;
    state->scratch_bytes = want;
}

static void ping_pong(int rank)
{
    for (int leg = 0; leg < 2; leg++) {
        int from = leg ? request.to : request.from, to = leg ? request.from : request.to;
        if (rank == from)
            PMPI_Send(world.blocks, request.size, MPI_BYTE, to, 1, everybody);
        else if (rank == to)
            PMPI_Recv(world.blocks, request.size, MPI_BYTE, from, 1, everybody, MPI_STATUS_IGNORE);
    }
}

static void meet_neighbours(int rank)
{
    int to, from;
    neighbours_of(states[rank]->rankings.order, world.ranks, rank, &to, &from);
    for (int i = 0; i < request.row_length; i++)
        PMPI_Sendrecv(world.blocks, request.size, MPI_BYTE, to, 1, world.blocks, request.size,
                      MPI_BYTE, from, 1, everybody, MPI_STATUS_IGNORE);
}

static void meet_all(int rank)
{
    MPI_Request *requests = (MPI_Request *)obtain(2 * (size_t)world.ranks * sizeof *requests);
    for (int i = 0; i < request.row_length; i++)
        exchange_with_all(world.blocks, world.blocks, request.size, world.ranks, rank, everybody,
                          requests);
    free(requests);
}

static void burst(int rank)
{
    MPI_Request *requests = (MPI_Request *)obtain((size_t)request.senders * sizeof *requests);
    for (int r = 1; rank == 0 && r <= request.senders; r++)
        PMPI_Irecv(world.blocks, request.size, MPI_BYTE, r, 1, everybody, &requests[r - 1]);
    if (rank == 0)
        PMPI_Waitall(request.senders, requests, MPI_STATUSES_IGNORE);
    else if (rank <= request.senders)
        PMPI_Send(world.blocks, request.size, MPI_BYTE, 0, 1, everybody);
    free(requests);
}

static void call(int rank)
{
    char *out = world.blocks, *in = world.blocks + ROOM / 4;
    int n = request.size;
    switch (request.verb) {
    case PREDICT:
        failed |= atall_run(states[rank], &request.row, out, n, MPI_BYTE, in, n, MPI_BYTE,
                            (size_t)n) != MPI_SUCCESS;
        break;
    case PINGPONG:
        ping_pong(rank);
        break;
    case NEIGHBOURS:
        meet_neighbours(rank);
        break;
    case CROWD:
        meet_all(rank);
        break;
    case BURST:
        burst(rank);
        break;
    }
}

/* What a rank does for one request. Collective calls are each behind a barrier, which ranks do not
 * leave at once, as the measuring job has them. */
static void make_calls(int rank)
{
    if (request.verb == PREDICT)
        give_scratch(rank);
    for (int i = 0; !failed && i < request.warmups + request.calls; i++) {
        meet(everybody);
        if (request.verb == PREDICT)
            PMPI_Barrier(everybody);
        double begin = agenda.now;
        call(rank);
        spend(0);
        if (agenda.now - begin > took[i])
            took[i] = agenda.now - begin;
    }
}

/* Time begins anew, so that the same question has the same answer. */
static void begin_anew(void)
{
    failed = false;
    agenda.now = 0;
    network.resent = network.timeouts = 0;
    memset(took, 0, sizeof took);
    for (int i = 0; i < world.ranks * world.ranks; i++)
        reset_flow(&network.flow[i]);
    for (int i = 0; i < node_count; i++)
        nodes[i].up.until = nodes[i].down.until = 0;
    for (int r = 0; r < world.ranks; r++)
        world.rank[r].sent_late = 0;
}

static void predict(void)
{
    begin_anew();
    if (!run_ranks(make_calls)) {
        printf("{\"error\": \"it waits for ever\"}\n");
        exit(1);
    }
    if (failed) {
        printf("{\"error\": \"it fails, or needs more scratch memory than is kept\"}\n");
        return;
    }
    printf("{\"seconds\": [");
    for (int i = request.warmups; i < request.warmups + request.calls; i++)
        printf("%s%.9f", i > request.warmups ? ", " : "", took[i] / request.row_length);
    printf("], \"resent\": %ld, \"timeouts\": %ld}\n", network.resent, network.timeouts);
}

/* ---- lines --------------------------------------------------------------------------------- */

/* One of the cluster's; false if it is none. */
static bool take_cluster(const char *line)
{
    static int most;
    struct cost *cost = &costs.at[costs.sizes];
    char host[LINE], mode[LINE];
    int parent, node;
    double rate, queue, burst;
    if (sscanf(line, "node %d %lf %lf %lf", &parent, &rate, &queue, &burst) == 4 &&
        node_count < MOST_NODES && parent < node_count) {
        /* what comes down to a node, and what a switch sends up, waits in a switch */
        nodes[node_count].parent = parent;
        nodes[node_count].up = nodes[node_count].down = (struct port){ rate, queue, burst, 0 };
        node_count++;
        return true;
    }
    if (sscanf(line, "rank %d %s", &node, host) == 2 && node >= 0 && node < node_count) {
        if (world.ranks == most) {
            most = most ? 2 * most : 64;
            world.rank = (struct rank *)realloc(world.rank, (size_t)most * sizeof *world.rank);
            if (!world.rank)
                give_up("no memory");
        }
        nodes[node].up.buffer = 0; /* a host's own queue drops nothing */
        world.rank[world.ranks++] = (struct rank){ .node = node, .host = strdup(host) };
        return true;
    }
    if (costs.sizes < MOST_COSTS &&
        sscanf(line, "cost %lf %lf %lf %lf %s %lf %lf %lf %lf %lf", &cost->bytes, &cost->send,
               &cost->receive, &cost->latency, mode, &cost->first, &cost->middle, &cost->spike,
               &cost->gaps, &cost->beside) == 10) {
        for (cost->mode = IMMEDIATE; cost->mode < MODES; cost->mode++)
            if (strcmp(mode, mode_names[cost->mode]) == 0)
                break;
        costs.sizes++;
        return cost->mode < MODES;
    }
    return sscanf(line, "copy %lf", &costs.copy) == 1 ||
           sscanf(line, "buffered %lf", &costs.buffered) == 1 ||
           sscanf(line, "processors %d", &costs.processors) == 1 ||
           sscanf(line, "wake %lf", &costs.wake) == 1 ||
           sscanf(line, "timeout %lf", &retransmission_timeout) == 1;
}

static bool take_variant(const char *label)
{
    request.row = (struct atall_row){ 0 };
    return atall_parse_label(label, &request.row) && atall_body_serves(request.row.body, states[0]);
}

static bool is_rank(int rank)
{
    return rank >= 0 && rank < world.ranks;
}

/* Exchanges in a row; false if it is none. */
static bool take_row(const char *line, const char *words, enum verb verb)
{
    request.verb = verb;
    return sscanf(line, words, &request.size, &request.row_length, &request.calls) == 3;
}

/* The words of a prediction; false if it is none. */
static bool take_words(const char *line)
{
    char word[LINE];
    request.warmups = 0;
    request.row_length = 1;
    if (sscanf(line, "predict %s %d %d %d", word, &request.size, &request.warmups,
               &request.calls) == 4) {
        request.verb = PREDICT;
        return take_variant(word);
    }
    if (sscanf(line, "pingpong %d %d %d %d", &request.from, &request.to, &request.size,
               &request.calls) == 4) {
        request.verb = PINGPONG;
        request.row_length = 2;
        return is_rank(request.from) && is_rank(request.to) && request.from != request.to;
    }
    if (take_row(line, "neighbours %d %d %d", NEIGHBOURS) ||
        take_row(line, "crowd %d %d %d", CROWD))
        return request.row_length >= 1;
    request.verb = BURST;
    return sscanf(line, "burst %d %d %d", &request.senders, &request.size, &request.calls) == 3 &&
           request.senders >= 1 && is_rank(request.senders);
}

static void be_faster(double times)
{
    static double before = 1;
    for (int node = 0; node < node_count; node++) {
        nodes[node].up.rate *= times / before;
        nodes[node].down.rate *= times / before;
    }
    retransmission_timeout *= before / times;
    before = times;
}

/* A prediction; false if it is none. */
static bool take_prediction(const char *line)
{
    int lossless;
    double times;
    if (sscanf(line, "faster %lf", &times) == 1 && times > 0) {
        be_faster(times);
        printf("{}\n");
        return true;
    }
    if (sscanf(line, "lossless %d", &lossless) == 1) {
        network.is_lossless = lossless;
        printf("{}\n");
        return true;
    }
    if (!take_words(line) || request.size < 1 || request.size > MOST_BYTES || request.calls < 1 ||
        request.warmups < 0 || request.warmups > MOST_CALLS - request.calls)
        return false;
    predict();
    return true;
}

int main(void)
{
    char line[LINE];
    bool started = false;
    while (fgets(line, sizeof line, stdin)) {
        if (!started && take_cluster(line))
            continue;
        if (!started && world.ranks > 0 && costs.sizes > 0) {
            start();
            started = true;
        }
        if (!started || !take_prediction(line))
            printf("{\"error\": \"not a line that is expected here\"}\n");
        fflush(stdout);
    }
    return 0;
}
