/*
 * alltoall.c - MPI_Alltoall for one cluster, chosen by measurement.
 *
 * Not tuned: written by ATALL with published cut-offs, correct everywhere and fast by chance.
 * Run ./configure on the cluster for a file that was measured there.
 * Made from generated/decision.toml. To change a row, edit it there and run "make emit"; when the
 * hardware, the network or the MPI library changes, run ./configure again.
 *
 * Use: compile this file with the program and call ATALL_Alltoall, which takes MPI_Alltoall's
 * arguments. In the environment, ATALL_VERBOSE=1 makes rank 0 say once per communicator which
 * table serves it, and ATALL_FORCE=LABEL forces one of the algorithms below.
 *
 * Top to bottom: what a call looks like, helpers, one function for each algorithm in use,
 * the tables that choose among them, what is kept with a communicator, the entry.
 *
 * SPDX-License-Identifier: 0BSD
 */
#include "alltoall.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that a row of a table passes to its algorithm. */
struct atall_values {
    /* a distance is counted round a ring of ranks, or digit by digit, as in a mesh, where the
     * digits just reach */
    int hops;
    /* base of the digits: about (radix-1) log_radix p messages */
    int radix;
    /* ranks numbered as they are, switch after switch, or one from each switch in turn */
    int ranking;
    /* sends, and receives, under way at a time */
    int window;
};

enum {
    ATALL_HOPS_RING,
    ATALL_HOPS_MESH,
};

enum {
    ATALL_RANKING_INDEX,
    ATALL_RANKING_SWITCH,
    ATALL_RANKING_INTERLEAVED,
};

/* One call: the user's arguments and what the communicator keeps for us. */
struct atall_call {
    const char *sendbuf;
    char *recvbuf;
    int sendcount, recvcount;
    MPI_Datatype sendtype, recvtype;
    MPI_Aint send_stride, recv_stride; /* bytes from one block to the next in memory */
    bool send_plain, recv_plain;       /* elements lie in memory as in a message */
    size_t block_bytes;                /* data to each peer: the same on all ranks */
    MPI_Comm comm;                     /* ours: no user's receive can match our messages */
    int rank, ranks;
    const int *ranking;    /* the rank of each number; NULL: itself */
    int number;            /* of this rank */
    MPI_Request *requests; /* room for 2 * ranks or parts, or for what the schedule says */
    char *scratch;
    bool has_scratch; /* as much as the algorithm wants; the same on all ranks */
    struct atall_values values;
};

enum { ATALL_MOST_PARTS = 16 }; /* into which a block is cut */

enum { ATALL_TAG_BLOCK = 1, ATALL_TAG_TOKEN, ATALL_TAG_OWN, ATALL_TAG_HOST, ATALL_TAG_PHASE };

/* What algorithms may need of a communicator. */
struct atall_place {
    int ranks;
    bool on_tree; /* all of it on hosts of the tree in this file */
};

/* Pass the first MPI error on to the entry. */
#define ATALL_TRY(statement)                                                                       \
    do {                                                                                           \
        int err_ = (statement);                                                                    \
        if (err_ != MPI_SUCCESS)                                                                   \
            return err_;                                                                           \
    } while (0)

/* ---- what algorithms call ---------------------------------------------------------------- */

/* The rank that has a number in the ranking of a call. */
static int atall_ranked(const struct atall_call *call, int number)
{
    return call->ranking ? call->ranking[number] : number;
}

/* Where the block for a peer begins. */
static const char *atall_send_block(const struct atall_call *call, int to)
{
    return call->sendbuf + to * call->send_stride;
}

/* Where the block from a peer goes. */
static char *atall_recv_block(const struct atall_call *call, int from)
{
    return call->recvbuf + from * call->recv_stride;
}

/* Start sending a peer its block. */
static int atall_isend(const struct atall_call *call, int to, MPI_Request *request)
{
    return PMPI_Isend(atall_send_block(call, to), call->sendcount, call->sendtype, to,
                      ATALL_TAG_BLOCK, call->comm, request);
}

/* Start receiving the block of a peer. */
static int atall_irecv(const struct atall_call *call, int from, MPI_Request *request)
{
    return PMPI_Irecv(atall_recv_block(call, from), call->recvcount, call->recvtype, from,
                      ATALL_TAG_BLOCK, call->comm, request);
}

/* Send one peer its block while receiving that of another, which may be the same; both by their
 * numbers in the ranking. */
static int atall_exchange(const struct atall_call *call, int to_number, int from_number)
{
    int to = atall_ranked(call, to_number), from = atall_ranked(call, from_number);
    return PMPI_Sendrecv(atall_send_block(call, to), call->sendcount, call->sendtype, to,
                         ATALL_TAG_BLOCK, atall_recv_block(call, from), call->recvcount,
                         call->recvtype, from, ATALL_TAG_BLOCK, call->comm, MPI_STATUS_IGNORE);
}

/* Write the block for a peer as block_bytes contiguous bytes. */
static int atall_pack(const struct atall_call *call, int to, char *bytes)
{
    int position = 0;
    if (!call->send_plain)
        return PMPI_Pack(atall_send_block(call, to), call->sendcount, call->sendtype, bytes,
                         (int)call->block_bytes, &position, call->comm);
    memcpy(bytes, atall_send_block(call, to), call->block_bytes);
    return MPI_SUCCESS;
}

/* Read the block of a peer from block_bytes contiguous bytes. */
static int atall_unpack(const struct atall_call *call, const char *bytes, int from)
{
    int position = 0;
    if (!call->recv_plain)
        return PMPI_Unpack(bytes, (int)call->block_bytes, &position, atall_recv_block(call, from),
                           call->recvcount, call->recvtype, call->comm);
    memcpy(atall_recv_block(call, from), bytes, call->block_bytes);
    return MPI_SUCCESS;
}

/* Copy the block that a rank has for itself. */
static int atall_copy_own(const struct atall_call *call)
{
    const char *from = atall_send_block(call, call->rank);
    char *to = atall_recv_block(call, call->rank);
    if (call->send_plain && call->recv_plain) {
        memcpy(to, from, call->block_bytes);
        return MPI_SUCCESS;
    }
    return PMPI_Sendrecv(from, call->sendcount, call->sendtype, call->rank, ATALL_TAG_OWN, to,
                         call->recvcount, call->recvtype, call->rank, ATALL_TAG_OWN, call->comm,
                         MPI_STATUS_IGNORE);
}

/* The number at a distance from another, negative: behind it. Digit by digit, without carry, if the
 * row wants a mesh and the digits just reach the number of ranks; else round the ring. */
static int atall_ahead(const struct atall_call *call, int number, long distance)
{
    const int p = call->ranks, radix = call->values.radix;
    const long away = distance < 0 ? -distance : distance;
    int found = 0;
    long top = 1;
    while (top * radix < p)
        top *= radix;
    if (call->values.hops != ATALL_HOPS_MESH || p % top != 0)
        return (int)((number + distance + p) % p);
    for (long place = 1; place < p; place *= radix) {
        long base = place == top ? p / top : radix, step = away / place % radix;
        long digit = number / place % radix + (distance < 0 ? base - step : step);
        found += (int)(digit % base * place);
    }
    return found;
}

/* The numbers below p that have the digit hop / place at that place; returns how many. */
static int atall_pick_digit(int p, int radix, long place, long hop, int *picked)
{
    int count = 0;
    for (int i = 0; i < p; i++)
        if (i / place % radix == hop / place)
            picked[count++] = i;
    return count;
}

static bool atall_power_of_two(const struct atall_place *place)
{
    return (place->ranks & (place->ranks - 1)) == 0;
}

/* ---- the algorithms -------------------------------------------------------------------- */

/* The library's own algorithm, which serves where nothing measured was faster. */
static int atall_native(const struct atall_call *call)
{
    return PMPI_Alltoall(call->sendbuf, call->sendcount, call->sendtype, call->recvbuf,
                         call->recvcount, call->recvtype, call->comm);
}

/*
 * Ring: in step i every rank sends to rank + i and receives from rank - i, so that no receiver
 * has two senders while all are in the same step.
 * Faraj and Yuan 4.2. Cost: (p-1)*(alpha + n*beta) + (p-2)*theta + gamma.
 */
static int atall_ring_none(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number;
    ATALL_TRY(atall_copy_own(call));
    for (int step = 1; step < p; step++) {
        ATALL_TRY(atall_exchange(call, (own + step) % p, (own - step + p) % p));
    }
    return MPI_SUCCESS;
}

/*
 * Simple, in blocks: so many sends and receives are posted and waited for, then the next.
 * Each rank begins with the peer behind it, so that the first messages have different targets.
 * Thakur, Rabenseifner and Gropp 4.3.
 * Cost: (p-1)*(alpha + n*beta) + (ceil((p-1)/window)-1)*theta + gamma.
 */
static int atall_simple_scattered(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number, peers = p - 1;
    const int width = call->values.window < peers ? call->values.window : peers;
    MPI_Request *requests = call->requests;
    ATALL_TRY(atall_copy_own(call));
    for (int next = 1; next < p; next += width) {
        int posted = 0;
        for (int i = next; i < next + width && i < p; i++)
            ATALL_TRY(
                atall_irecv(call, atall_ranked(call, (own - i + p) % p), &requests[posted++]));
        for (int i = next; i < next + width && i < p; i++)
            ATALL_TRY(atall_isend(call, atall_ranked(call, (own + i) % p), &requests[posted++]));
        ATALL_TRY(PMPI_Waitall(posted, requests, MPI_STATUSES_IGNORE));
    }
    return MPI_SUCCESS;
}

/*
 * Bruck: a block for the rank at distance d travels in as many hops as d has digits other than
 * zero, in base radix. All blocks that share a digit go in one message, so few messages carry
 * the data several times: for small blocks. In a mesh, with hops along its dimensions, radix 2
 * is the hypercube.
 * Faraj and Yuan 4.1; Thakur, Rabenseifner and Gropp 4.3; Liu, Wang and Prasanna, A3.
 * Cost: digits(p, radix)*((radix-1)*(alpha + p/radix*n*beta) + theta) - theta + gamma.
 */
static int atall_bruck(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number, radix = call->values.radix;
    const size_t n = call->block_bytes;
    int *picked = (int *)(void *)call->scratch;
    char *blocks = call->scratch + p * sizeof *picked, *packed = blocks + p * n;
    char *arrived = packed + p * n;

    for (int i = 0; i < p; i++)
        ATALL_TRY(atall_pack(call, atall_ranked(call, atall_ahead(call, own, i)), blocks + i * n));
    for (long place = 1; place < p; place *= radix) {
        int posted = 0, at = 0, count;
        for (long hop = place; hop < p && hop < place * radix; hop += place, at += count) {
            int to = atall_ranked(call, atall_ahead(call, own, hop));
            int from = atall_ranked(call, atall_ahead(call, own, -hop));
            count = atall_pick_digit(p, radix, place, hop, picked);
            ATALL_TRY(PMPI_Irecv(arrived + at * n, (int)(count * n), MPI_BYTE, from,
                                 ATALL_TAG_BLOCK, call->comm, &call->requests[posted++]));
            for (int i = 0; i < count; i++)
                memcpy(packed + (at + i) * n, blocks + picked[i] * n, n);
            ATALL_TRY(PMPI_Isend(packed + at * n, (int)(count * n), MPI_BYTE, to, ATALL_TAG_BLOCK,
                                 call->comm, &call->requests[posted++]));
        }
        ATALL_TRY(PMPI_Waitall(posted, call->requests, MPI_STATUSES_IGNORE));
        at = 0;
        for (long hop = place; hop < p && hop < place * radix; hop += place) {
            count = atall_pick_digit(p, radix, place, hop, picked);
            for (int i = 0; i < count; i++)
                memcpy(blocks + picked[i] * n, arrived + at++ * n, n);
        }
    }
    for (int i = 0; i < p; i++)
        ATALL_TRY(
            atall_unpack(call, blocks + i * n, atall_ranked(call, atall_ahead(call, own, -i))));
    return MPI_SUCCESS;
}

static size_t atall_bruck_memory(size_t p, size_t n, const struct atall_values *values)
{
    (void)values;
    return 3 * p * n + 4 * p;
}

/*
 * Pair: in step i every rank exchanges with rank xor i, so that a rank meets one other at a
 * time. The number of ranks is a power of two.
 * Faraj and Yuan 4.2. Cost: (p-1)*(alpha + n*beta) + (p-2)*theta + gamma.
 */
static int atall_pair_none(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number;
    ATALL_TRY(atall_copy_own(call));
    for (int step = 1; step < p; step++) {
        ATALL_TRY(atall_exchange(call, own ^ step, own ^ step));
    }
    return MPI_SUCCESS;
}

struct atall_body {
    const char *label;
    int (*run)(const struct atall_call *call);
    bool (*serves)(const struct atall_place *place); /* NULL: any communicator */
    /* Bytes of scratch on p ranks for blocks of n; NULL: none. */
    size_t (*memory)(size_t p, size_t n, const struct atall_values *values);
    bool memory_is_optional; /* it works without, too */
};

enum {
    ATALL_NATIVE,
    ATALL_RING_NONE,
    ATALL_SIMPLE_SCATTERED,
    ATALL_BRUCK,
    ATALL_PAIR_NONE,
    ATALL_BODIES
};

/* clang-format off */
static const struct atall_body atall_bodies[ATALL_BODIES] = {
    [ATALL_NATIVE] = { "native", atall_native, NULL, NULL, false },
    [ATALL_RING_NONE] = { "ring(sync=none)", atall_ring_none, NULL, NULL, false },
    [ATALL_SIMPLE_SCATTERED] = { "simple(order=scattered)", atall_simple_scattered, NULL, NULL, false },
    [ATALL_BRUCK] = { "bruck", atall_bruck, NULL, atall_bruck_memory, false },
    [ATALL_PAIR_NONE] = { "pair(sync=none)", atall_pair_none, atall_power_of_two, NULL, false },
};
/* clang-format on */

/* ---- the tables ------------------------------------------------------------------------ */

/* Up to this many bytes to each peer, this algorithm with these numbers. */
struct atall_row {
    size_t most;
    int body;
    struct atall_values values;
};

struct atall_table {
    int ranks; /* for which it was measured; 0: untuned */
    int rows;
    const struct atall_row *row;
};

/* Published cut-offs, not measured; for those numbers of ranks that all its rows serve. */
static const struct atall_row atall_rows_0[] = {
    /* MPICH: Bruck up to 256 bytes */
    { 256, ATALL_BRUCK, { .radix = 2 } },
    /* MPICH: 32 at a time up to 32 KiB */
    { 32768, ATALL_SIMPLE_SCATTERED, { .window = 32 } },
    /* MPICH: pairwise above, by xor on a power of two */
    { SIZE_MAX, ATALL_PAIR_NONE, { 0 } },
};

/* Published cut-offs, not measured; for any number of ranks. */
static const struct atall_row atall_rows_1[] = {
    /* MPICH: Bruck up to 256 bytes */
    { 256, ATALL_BRUCK, { .radix = 2 } },
    /* MPICH: 32 at a time up to 32 KiB */
    { 32768, ATALL_SIMPLE_SCATTERED, { .window = 32 } },
    /* MPICH: pairwise above, by distance otherwise */
    { SIZE_MAX, ATALL_RING_NONE, { 0 } },
};

static const struct atall_table atall_tables[] = {
    { 0, 3, atall_rows_0 },
    { 0, 3, atall_rows_1 },
};

enum { ATALL_TABLES = sizeof atall_tables / sizeof atall_tables[0] };

static bool atall_body_serves(int body, const struct atall_place *place)
{
    return !atall_bodies[body].serves || atall_bodies[body].serves(place);
}

static bool atall_table_serves(const struct atall_table *table, const struct atall_place *place)
{
    for (int i = 0; i < table->rows; i++)
        if (!atall_body_serves(table->row[i].body, place))
            return false;
    return true;
}

/* How far from the number of ranks a table was measured: 1 is exact. */
static double atall_distance(const struct atall_table *table, int ranks)
{
    if (table->ranks == 0)
        return INT_MAX;
    return table->ranks > ranks ? (double)table->ranks / ranks : (double)ranks / table->ranks;
}

/* The nearest table all of whose rows serve a communicator; the last one serves any. */
static const struct atall_table *atall_choose_table(const struct atall_place *place)
{
    const struct atall_table *best = &atall_tables[ATALL_TABLES - 1];
    for (int i = ATALL_TABLES - 1; i >= 0; i--)
        if (atall_table_serves(&atall_tables[i], place) &&
            atall_distance(&atall_tables[i], place->ranks) <= atall_distance(best, place->ranks))
            best = &atall_tables[i];
    return best;
}

/* ---- forcing an algorithm by its label: name(parameter=value,...) ------------------------ */

struct atall_number {
    const char *name;
    int least;
    size_t offset;
    const char *words; /* its values 0, 1, ... by name, each followed by a comma; or NULL */
};

/* clang-format off */
static const struct atall_number atall_numbers[] = {
    { "hops", 0, offsetof(struct atall_values, hops), "ring,mesh," },
    { "radix", 2, offsetof(struct atall_values, radix), NULL },
    { "ranking", 0, offsetof(struct atall_values, ranking), "index,switch,interleaved," },
    { "window", 1, offsetof(struct atall_values, window), NULL },
};

/* The place of a word among those that a comma follows; -1: it is none of them. */
static long atall_find_word(const char *words, const char *word, size_t length)
{
    for (long place = 0; *words; place++) {
        size_t other = strcspn(words, ",");
        if (other == length && strncmp(words, word, length) == 0)
            return place;
        words += other + 1;
    }
    return -1;
}

/* Take "name=value" if it is one of the numbers above. */
static bool atall_take_number(const char *item, size_t length, struct atall_values *values)
{
    for (size_t i = 0; i < sizeof atall_numbers / sizeof atall_numbers[0]; i++) {
        const struct atall_number *number = &atall_numbers[i];
        size_t name = strlen(number->name);
        char *end;
        if (length <= name + 1 || strncmp(item, number->name, name) != 0 || item[name] != '=')
            continue;
        long value = strtol(item + name + 1, &end, 10);
        if (number->words)
            value = atall_find_word(number->words, item + name + 1, length - name - 1);
        else if (end != item + length)
            return false;
        if (value < number->least || value > INT_MAX)
            return false;
        *(int *)((char *)values + number->offset) = (int)value;
        return true;
    }
    return false;
}

/* Split a label into the algorithm, whose own label has no numbers, and the numbers; those that it
 * leaves out are the least ones. */
static bool atall_parse_label(const char *label, struct atall_row *row)
{
    char name[128] = "";
    size_t used = strcspn(label, "(");
    const char *item = label + used;
    if (strlen(label) >= sizeof name - 2)
        return false;
    for (size_t i = 0; i < sizeof atall_numbers / sizeof atall_numbers[0]; i++)
        *(int *)((char *)&row->values + atall_numbers[i].offset) = atall_numbers[i].least;
    memcpy(name, label, used);
    for (char separator = '('; *item == '(' || *item == ',';) {
        size_t length = strcspn(++item, ",)");
        if (!atall_take_number(item, length, &row->values)) {
            name[used++] = separator;
            memcpy(name + used, item, length);
            used += length;
            separator = ',';
        }
        item += length;
    }
    if (strchr(name, '('))
        name[used] = ')';
    for (row->body = 0; row->body < ATALL_BODIES; row->body++)
        if (strcmp(name, atall_bodies[row->body].label) == 0)
            return true;
    return false;
}

/* ---- what is kept with a communicator ---------------------------------------------------- */

struct atall_state {
    MPI_Comm comm; /* the user's group, our messages */
    int rank;
    struct atall_place place;
    int rows;
    const struct atall_row *row;
    struct atall_row forced; /* the only row when ATALL_FORCE is set */
    MPI_Request *requests;
    char *scratch;
    size_t scratch_bytes; /* the same on all ranks */
};

enum {
    ATALL_SCRATCH_BLOCK = 1048576, /* scratch is kept for blocks up to this */
    ATALL_SCRATCH_MOST = 67108864   /* and is never larger than this */
};

/* Stands for a communicator that is not served: the library's own routine serves it. */
static struct atall_state atall_unserved = { .comm = MPI_COMM_NULL };

static atomic_int atall_key = MPI_KEYVAL_INVALID;

/* Bytes of scratch that a row wants for blocks of n. */
static size_t atall_wanted(const struct atall_place *place, const struct atall_row *row, size_t n)
{
    const struct atall_body *body = &atall_bodies[row->body];
    size_t ranks = (size_t)place->ranks, bytes = 0;
    return bytes + (body->memory ? body->memory(ranks, n, &row->values) : 0);
}

/* Bytes that a row gets as scratch; more is refused to it at the call, on all ranks alike. */
static size_t atall_row_scratch(const struct atall_place *place, const struct atall_row *row)
{
    size_t n = row->most < ATALL_SCRATCH_BLOCK ? row->most : ATALL_SCRATCH_BLOCK;
    size_t bytes = atall_wanted(place, row, n);
    return bytes < ATALL_SCRATCH_MOST ? bytes : ATALL_SCRATCH_MOST;
}

static void atall_free_state(struct atall_state *state)
{
    if (!state || state == &atall_unserved)
        return;
    if (state->comm != MPI_COMM_NULL)
        PMPI_Comm_free(&state->comm);
    free(state->requests);
    free(state->scratch);
    free(state);
}

/* Called by MPI when the user's communicator is freed. */
static int atall_delete_state(MPI_Comm comm, int key, void *state, void *extra)
{
    (void)comm, (void)key, (void)extra;
    atall_free_state((struct atall_state *)state);
    return MPI_SUCCESS;
}

/* Rank 0 reads the environment for all, since only it is sure to have the user's. */
static int atall_read_environment(struct atall_state *state)
{
    const struct atall_table *table = atall_choose_table(&state->place);
    const char *label = getenv("ATALL_FORCE"), *verbose = getenv("ATALL_VERBOSE");
    struct atall_row *forced = &state->forced;
    int is_forced = 0;

    state->row = table->row;
    state->rows = table->rows;
    forced->most = SIZE_MAX;
    if (state->rank == 0 && label && *label) {
        is_forced =
            atall_parse_label(label, forced) && atall_body_serves(forced->body, &state->place);
        if (!is_forced)
            fprintf(stderr, "ATALL: ATALL_FORCE=%s ignored: not here, or not for these %d ranks\n",
                    label, state->place.ranks);
    }
    if (state->rank == 0 && verbose && atoi(verbose) > 0)
        fprintf(stderr, "ATALL: communicator of %d ranks: %s%s, table for %d ranks\n",
                state->place.ranks, is_forced ? "forced " : "tuned", is_forced ? label : "",
                table->ranks);
    ATALL_TRY(PMPI_Bcast(&is_forced, 1, MPI_INT, 0, state->comm));
    if (!is_forced)
        return MPI_SUCCESS;
    state->row = forced;
    state->rows = 1;
    return PMPI_Bcast(forced, (int)sizeof *forced, MPI_BYTE, 0, state->comm);
}

static bool atall_obtain_requests(struct atall_state *state)
{
    int requests = 2 * ATALL_MOST_PARTS;
    if (requests < 2 * state->place.ranks)
        requests = 2 * state->place.ranks;
    state->requests = (MPI_Request *)malloc((size_t)requests * sizeof(MPI_Request));
    return state->requests != NULL;
}

/* Obtain memory and agree on what all ranks have; 0 in *served if some rank has too little. */
static int atall_obtain_memory(struct atall_state *state, int *served)
{
    size_t most = 0;
    int have[2];
    for (int i = 0; i < state->rows; i++) {
        size_t bytes = atall_row_scratch(&state->place, &state->row[i]);
        most = bytes > most ? bytes : most;
    }
    have[0] = atall_obtain_requests(state);
    state->scratch = most ? (char *)malloc(most) : NULL;
    have[1] = state->scratch != NULL;
    ATALL_TRY(PMPI_Allreduce(MPI_IN_PLACE, have, 2, MPI_INT, MPI_MIN, state->comm));
    *served = have[0];
    state->scratch_bytes = have[1] ? most : 0;
    return MPI_SUCCESS;
}

/* Make the private communicator from the user's group: MPI_Comm_dup would run the user's
 * attribute callbacks. */
static int atall_make_comm(MPI_Comm user, struct atall_state *state)
{
    MPI_Group group;
    ATALL_TRY(PMPI_Comm_group(user, &group));
    int err = PMPI_Comm_create(user, group, &state->comm);
    PMPI_Group_free(&group);
    ATALL_TRY(err);
    ATALL_TRY(PMPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN));
    ATALL_TRY(PMPI_Comm_rank(state->comm, &state->rank));
    return PMPI_Comm_size(state->comm, &state->place.ranks);
}

static int atall_get_key(int *key)
{
    int none = MPI_KEYVAL_INVALID;
    *key = atomic_load(&atall_key);
    if (*key != MPI_KEYVAL_INVALID)
        return MPI_SUCCESS;
    ATALL_TRY(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, atall_delete_state, key, NULL));
    if (!atomic_compare_exchange_strong(&atall_key, &none, *key)) {
        PMPI_Comm_free_keyval(key); /* another thread was first */
        *key = none;
    }
    return MPI_SUCCESS;
}

/* First use of a communicator. */
static int atall_make_state(MPI_Comm comm, int key, struct atall_state **made)
{
    struct atall_state first = atall_unserved, *state = NULL;
    int between_groups, served = 0;

    ATALL_TRY(PMPI_Comm_test_inter(comm, &between_groups));
    if (!between_groups) {
        ATALL_TRY(atall_make_comm(comm, &first));
        state = (struct atall_state *)malloc(sizeof *state);
        served = state != NULL;
        ATALL_TRY(PMPI_Allreduce(MPI_IN_PLACE, &served, 1, MPI_INT, MPI_MIN, first.comm));
        if (state)
            *state = first;
    }
    if (served) {
        ATALL_TRY(atall_read_environment(state));
        ATALL_TRY(atall_obtain_memory(state, &served));
    }
    if (!served) {
        if (!state && first.comm != MPI_COMM_NULL)
            PMPI_Comm_free(&first.comm);
        atall_free_state(state);
        state = &atall_unserved;
    }
    *made = state;
    return PMPI_Comm_set_attr(comm, key, state);
}

static int atall_get_state(MPI_Comm comm, struct atall_state **state)
{
    int key, found;
    ATALL_TRY(atall_get_key(&key));
    ATALL_TRY(PMPI_Comm_get_attr(comm, key, state, &found));
    return found ? MPI_SUCCESS : atall_make_state(comm, key, state);
}

/* ---- the entry ------------------------------------------------------------------------- */

/* Whether the scratch that is kept is as much as a row wants for a block. */
static bool atall_has_scratch(const struct atall_state *state, const struct atall_row *row,
                              size_t block_bytes)
{
    size_t wanted = atall_wanted(&state->place, row, block_bytes);
    return wanted == 0 || (block_bytes <= ATALL_SCRATCH_BLOCK && wanted <= state->scratch_bytes);
}

/* Whether a row's algorithm works without its scratch, too. */
static bool atall_spares_scratch(const struct atall_place *place, const struct atall_row *row)
{
    (void)place;
    return atall_bodies[row->body].memory_is_optional;
}

/* The row for a block. Only what all ranks share decides: the bytes to each peer, and the
 * scratch they agreed on. NULL: the library's own routine. */
static const struct atall_row *atall_choose_row(const struct atall_state *state, size_t block_bytes)
{
    const struct atall_row *row = state->row;
    while (block_bytes > row->most)
        row++;
    if (atall_spares_scratch(&state->place, row) || atall_has_scratch(state, row, block_bytes))
        return row;
    return NULL;
}

/* Whether elements of a type lie in memory one after the other as they do in a message. */
static bool atall_is_plain(MPI_Datatype type, MPI_Aint extent)
{
    int size, integers, addresses, types, combiner;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS)
        return false;
    return combiner == MPI_COMBINER_NAMED && PMPI_Type_size(type, &size) == MPI_SUCCESS &&
           size == extent;
}

/* Run one row's algorithm on the user's arguments. */
static int atall_run(const struct atall_state *state, const struct atall_row *row,
                     const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                     int recvcount, MPI_Datatype recvtype, size_t block_bytes)
{
    MPI_Aint bound, send_extent, recv_extent;
    ATALL_TRY(PMPI_Type_get_extent(sendtype, &bound, &send_extent));
    ATALL_TRY(PMPI_Type_get_extent(recvtype, &bound, &recv_extent));
    const struct atall_call call = {
        .sendbuf = (const char *)sendbuf,
        .recvbuf = (char *)recvbuf,
        .sendcount = sendcount,
        .recvcount = recvcount,
        .sendtype = sendtype,
        .recvtype = recvtype,
        .send_stride = sendcount * send_extent,
        .recv_stride = recvcount * recv_extent,
        .send_plain = atall_is_plain(sendtype, send_extent),
        .recv_plain = atall_is_plain(recvtype, recv_extent),
        .block_bytes = block_bytes,
        .comm = state->comm,
        .rank = state->rank,
        .ranks = state->place.ranks,
        .number = state->rank,
        .requests = state->requests,
        .scratch = state->scratch,
        .has_scratch = atall_has_scratch(state, row, block_bytes),
        .values = row->values,
    };
    return atall_bodies[row->body].run(&call);
}

/* Whether arguments are what the tuned code takes; the library's own routine has the rest,
 * erroneous ones too. */
static bool atall_takes(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int recvcount,
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    return comm != MPI_COMM_NULL && sendbuf != MPI_IN_PLACE && sendcount > 0 && recvcount > 0 &&
           sendtype != MPI_DATATYPE_NULL && recvtype != MPI_DATATYPE_NULL;
}

int ATALL_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct atall_state *state = &atall_unserved;
    const struct atall_row *row = NULL;
    MPI_Count size = 0;
    int err = MPI_SUCCESS;

    if (atall_takes(sendbuf, sendcount, sendtype, recvcount, recvtype, comm)) {
        err = PMPI_Type_size_x(sendtype, &size);
        if (err == MPI_SUCCESS && size > 0)
            err = atall_get_state(comm, &state);
        if (err == MPI_SUCCESS && state != &atall_unserved)
            row = atall_choose_row(state, (size_t)sendcount * (size_t)size);
    }
    if (err == MPI_SUCCESS && row)
        err = atall_run(state, row, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                        (size_t)sendcount * (size_t)size);
    else if (err == MPI_SUCCESS)
        return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    if (err != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(comm, err);
    return err;
}
