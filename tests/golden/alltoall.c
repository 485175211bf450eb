/*
 * alltoall.c - MPI_Alltoall for one cluster, chosen by measurement.
 *
 * Not tuned: written by ATALL with published cut-offs, correct everywhere and fast by chance.
 * Run ./configure on the cluster for a file that was measured there.
 * Made from generated/decision.toml. To change a row, edit it there and run "make emit"; when the
 * hardware, the network or the MPI library changes, run ./configure again.
 *
 * Use: compile this file with the program and call ATALL_Alltoall, which has MPI_Alltoall's
 * arguments and meaning. Or leave the program as it is: with -DATALL_OVERRIDE the file defines
 * MPI_Alltoall itself, with -DATALL_WRAP what "ld --wrap" asks for.
 *
 * In the environment (of rank 0): ATALL_DISABLE=1 leaves all to the library, ATALL_FORCE=LABEL
 * has one of the algorithms below serve all blocks, ATALL_VERBOSE=1 says which table serves a
 * communicator, 2 all tables, and 0 suppresses warnings; ATALL_STATS=1 (or a file's name) counts
 * calls and prints them in MPI_Finalize.
 *
 * Top to bottom: the tables that choose an algorithm, the algorithms in use with what they call,
 * the entry; below it what is kept with the process and with communicators, and what is optional.
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

/* Of what older MPICHs' headers make of MPI_STATUSES_IGNORE. */
#if defined MPICH_NUMVERSION && defined __GNUC__ && !defined __clang__
#if MPICH_NUMVERSION < 40100000
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif
#endif

/* A shared library may be loaded beside an MPI older than that it was compiled with. */
#if MPI_VERSION >= 4 && defined ATALL_SHARED
#pragma weak PMPI_Alltoall_c
#pragma weak PMPI_Comm_create_from_group
#pragma weak PMPI_Type_contiguous_c
#pragma weak PMPI_Type_get_envelope_c
#define ATALL_IS_MPI_4 (PMPI_Type_get_envelope_c != NULL)
#else
#define ATALL_IS_MPI_4 (MPI_VERSION >= 4)
#endif

/* ---- the tables: which algorithm serves which blocks ---------------------------------------- */

/* Numbers that a row of a table passes to its algorithm. */
struct atall_values {
    /* base of the lowest digit, if it has one of its own: a mesh of first x radix x radix x
     * ... ranks */
    int first;
    /* a distance is counted round a ring of ranks, or digit by digit, as in a mesh, where the
     * digits just reach */
    int hops;
    /* base of the digits: about (radix-1) log_radix p messages */
    int radix;
    /* sends, and receives, under way at a time */
    int window;
};

enum {
    ATALL_HOPS_RING,
    ATALL_HOPS_MESH,
};

/* clang-format off */
enum {
    ATALL_NATIVE,
    ATALL_RING_NONE,
    ATALL_SIMPLE_SCATTERED,
    ATALL_BRUCK,
    ATALL_PAIR_NONE,
    ATALL_BODIES
};
/* clang-format on */

/* Up to this many bytes to each peer, this algorithm with these numbers. */
struct atall_row {
    size_t most;
    int body;
    struct atall_values values;
    const char *label;
};

struct atall_table {
    int ranks, hosts, each; /* on which it was measured; each: ranks a host; 0: not known, or any */
    double load;            /* of the busiest cable: ns for a byte to each peer; 0: not known */
    int rows;
    const struct atall_row *row;
};

/* Published cut-offs, not measured; for communicators that all its rows can serve. */
static const struct atall_row atall_rows_0[] = {
    /* MPICH: Bruck up to 256 bytes */
    { 256, ATALL_BRUCK, { .radix = 2 }, "bruck(radix=2)" },
    /* MPICH: 32 at a time up to 32 KiB */
    { 32768, ATALL_SIMPLE_SCATTERED, { .window = 32 }, "simple(order=scattered,window=32)" },
    /* MPICH: pairwise above, by xor on a power of two */
    { SIZE_MAX, ATALL_PAIR_NONE, { 0 }, "pair(sync=none)" },
};

/* Published cut-offs, not measured; for any. */
static const struct atall_row atall_rows_1[] = {
    /* MPICH: Bruck up to 256 bytes */
    { 256, ATALL_BRUCK, { .radix = 2 }, "bruck(radix=2)" },
    /* MPICH: 32 at a time up to 32 KiB */
    { 32768, ATALL_SIMPLE_SCATTERED, { .window = 32 }, "simple(order=scattered,window=32)" },
    /* MPICH: pairwise above, by distance otherwise */
    { SIZE_MAX, ATALL_RING_NONE, { 0 }, "ring(sync=none)" },
};

static const struct atall_table atall_tables[] = {
    { 0, 0, 0, 0.0, 3, atall_rows_0 },
    { 0, 0, 0, 0.0, 3, atall_rows_1 },
};

enum { ATALL_TABLES = sizeof atall_tables / sizeof atall_tables[0] };

/* ---- a call ------------------------------------------------------------------------------- */

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
    int number;            /* of this rank */
    MPI_Request *requests; /* room for 2 * ranks or parts */
    char *scratch;
    bool has_scratch; /* as much as the algorithm wants; the same on all ranks */
    struct atall_values values;
};

enum {
    ATALL_TAG_BLOCK = 1,
    ATALL_TAG_OWN = 3,
};

/* Pass the first MPI error on to the entry. */
#define ATALL_TRY(statement)                                                                       \
    do {                                                                                           \
        int err_ = (statement);                                                                    \
        if (err_ != MPI_SUCCESS)                                                                   \
            return err_;                                                                           \
    } while (0)

/* ---- what algorithms call ---------------------------------------------------------------- */

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

/* The rank that has a number in the ranking of a call. */
static int atall_ranked(const struct atall_call *call, int number)
{
    (void)call;
    return number;
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

/* Start receiving the block of a peer. */
static int atall_irecv(const struct atall_call *call, int from, MPI_Request *request)
{
    return PMPI_Irecv(atall_recv_block(call, from), call->recvcount, call->recvtype, from,
                      ATALL_TAG_BLOCK, call->comm, request);
}

/* Start sending a peer its block. */
static int atall_isend(const struct atall_call *call, int to, MPI_Request *request)
{
    return PMPI_Isend(atall_send_block(call, to), call->sendcount, call->sendtype, to,
                      ATALL_TAG_BLOCK, call->comm, request);
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

/* ---- the algorithms -------------------------------------------------------------------- */

#ifdef ATALL_WRAP
/* What PMPI_Alltoall was before the linker wrapped it, if it did. */
int __real_PMPI_Alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm)
    __attribute__((weak));
#endif

/* The library's own routine. */
static int atall_library(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                         int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
#ifdef ATALL_WRAP
    if (__real_PMPI_Alltoall)
        return __real_PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                    comm);
#endif
    return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

/* The library's own algorithm, which serves where nothing measured was faster. */
static int atall_native(const struct atall_call *call)
{
    return atall_library(call->sendbuf, call->sendcount, call->sendtype, call->recvbuf,
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

/* The base of the lowest digit: its own, if the row gives it one. */
static long atall_lowest_base(const struct atall_call *call)
{
    return call->values.first > 1 ? call->values.first : call->values.radix;
}

/* The number at a distance from another, negative: behind it. Digit by digit, without carry, if the
 * row wants a mesh and the digits just reach the number of ranks; else round the ring. */
static int atall_ahead(const struct atall_call *call, int number, long distance)
{
    const int p = call->ranks;
    const long radix = call->values.radix, lowest = atall_lowest_base(call);
    const long away = distance < 0 ? -distance : distance;
    int found = 0;
    long top = 1;
    for (long base = lowest; top * base < p; base = radix)
        top *= base;
    if (call->values.hops != ATALL_HOPS_MESH || p % top != 0)
        return (int)((number + distance + p) % p);
    for (long place = 1, base = lowest; place < p; place *= base, base = radix) {
        long side = place == top ? p / top : base, step = away / place % base;
        long digit = number / place % base + (distance < 0 ? side - step : step);
        found += (int)(digit % side * place);
    }
    return found;
}

/* The numbers below p that have the digit hop / place at that place; returns how many. */
static int atall_pick_digit(int p, long base, long place, long hop, int *picked)
{
    int count = 0;
    for (int i = 0; i < p; i++)
        if (i / place % base == hop / place)
            picked[count++] = i;
    return count;
}

/*
 * Bruck: a block for the rank at distance d travels in as many hops as d has digits other than
 * zero, in base radix. All blocks that share a digit go in one message, so few messages carry
 * the data several times: for small blocks. The lowest digit may have a base of its own. In a mesh,
 * with hops along its dimensions, radix 2 is the hypercube.
 * Faraj and Yuan 4.1; Thakur, Rabenseifner and Gropp 4.3; Liu, Wang and Prasanna, A3.
 * Cost: (first-1)*(alpha + p/first*n*beta) + (first > 1)*theta +
 * digits(p/first, radix)*((radix-1)*(alpha + p/radix*n*beta) + theta) -
 * theta + gamma.
 */
static int atall_bruck(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number;
    const long radix = call->values.radix, lowest = atall_lowest_base(call);
    const size_t n = call->block_bytes;
    int *picked = (int *)(void *)call->scratch;
    char *blocks = call->scratch + p * sizeof *picked, *packed = blocks + p * n;
    char *arrived = packed + p * n;

    for (int i = 0; i < p; i++)
        ATALL_TRY(atall_pack(call, atall_ranked(call, atall_ahead(call, own, i)), blocks + i * n));
    for (long place = 1, base = lowest; place < p; place *= base, base = radix) {
        int posted = 0, at = 0, count;
        for (long hop = place; hop < p && hop < place * base; hop += place, at += count) {
            int to = atall_ranked(call, atall_ahead(call, own, hop));
            int from = atall_ranked(call, atall_ahead(call, own, -hop));
            count = atall_pick_digit(p, base, place, hop, picked);
            ATALL_TRY(PMPI_Irecv(arrived + at * n, (int)(count * n), MPI_BYTE, from,
                                 ATALL_TAG_BLOCK, call->comm, &call->requests[posted++]));
            for (int i = 0; i < count; i++)
                memcpy(packed + (at + i) * n, blocks + picked[i] * n, n);
            ATALL_TRY(PMPI_Isend(packed + at * n, (int)(count * n), MPI_BYTE, to, ATALL_TAG_BLOCK,
                                 call->comm, &call->requests[posted++]));
        }
        ATALL_TRY(PMPI_Waitall(posted, call->requests, MPI_STATUSES_IGNORE));
        at = 0;
        for (long hop = place; hop < p && hop < place * base; hop += place) {
            count = atall_pick_digit(p, base, place, hop, picked);
            for (int i = 0; i < count; i++)
                memcpy(blocks + picked[i] * n, arrived + at++ * n, n);
        }
    }
    for (int i = 0; i < p; i++)
        ATALL_TRY(
            atall_unpack(call, blocks + i * n, atall_ranked(call, atall_ahead(call, own, -i))));
    return MPI_SUCCESS;
}

static size_t atall_bruck_bytes(size_t p, size_t n, const struct atall_values *values)
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

/* ---- what is kept with the process, and with a communicator ---------------------------------- */

/* Calls of one kind: as many ranks, as many bytes to each peer, served alike. */
struct atall_count {
    struct atall_count *next;
    int ranks;
    size_t block_bytes;
    const char *served_by; /* a row's label, or why the library's own routine */
    long long calls;
    double seconds;
};

/* Made by the first call; MPI_Finalize frees it, through an attribute of MPI_COMM_SELF. */
struct atall_process {
    int key;           /* of the attribute that holds a communicator's state */
    int verbose;       /* ATALL_VERBOSE; 0 where it is not set, -1 where it is 0 */
    const char *stats; /* ATALL_STATS: NULL, "1" for standard error, or a file's name */
    atomic_flag busy;  /* guards what follows */
    struct atall_state *served, *gone; /* all in use; the last one that was freed */
    int served_count;
    int number; /* of the next communicator of which this is rank 0; hardly another has it */
    struct atall_count *counts;
};

/* The only variable that changes; several threads may make the first call. MPI_Finalize has it
 * point to what stands for the end: MPI_COMM_SELF takes no more attributes then. */
static _Atomic(struct atall_process *) atall_process;
static struct atall_process atall_ended;

static void atall_lock(struct atall_process *process)
{
    while (atomic_flag_test_and_set_explicit(&process->busy, memory_order_acquire))
        ;
}

static void atall_unlock(struct atall_process *process)
{
    atomic_flag_clear_explicit(&process->busy, memory_order_release);
}

/* What a call must know of a datatype. */
struct atall_type {
    MPI_Datatype type;
    MPI_Count size;
    MPI_Aint extent;
    bool plain; /* elements lie in memory one after the other as they do in a message */
};

/* What is kept with a communicator. */
struct atall_state {
    const char *unserved; /* why the library's own routine has all calls; NULL: it has not */
    MPI_Comm comm;        /* of the user's group, for our messages */
    int rank, ranks;
    int rows;
    const struct atall_row *row;
    struct atall_row forced; /* the only row when ATALL_FORCE is set */
    MPI_Request *requests;
    char *scratch;
    size_t scratch_bytes;   /* the same on all ranks */
    char *copy;             /* of what is sent in place, obtained when that is asked for */
    size_t copy_bytes;      /* the same on all ranks */
    struct atall_type seen; /* the last plain one */
    struct atall_state *next, **link; /* among those of the process */
};

/* Scratch is kept for blocks up to so many bytes, and is never larger than that. */
enum { ATALL_SCRATCH_BLOCK = 1048576, ATALL_SCRATCH_MOST = 67108864 };

enum { ATALL_MOST_SERVED = 400 }; /* communicators: a library may have no more than 2048 */

/* Defined below. */
static int atall_get_process(struct atall_process **process);
static int atall_make_state(struct atall_process *process, MPI_Comm user,
                            struct atall_state **made);
static void atall_count_call(struct atall_process *process, int ranks, size_t block_bytes,
                             const char *served_by, double seconds);

static bool atall_power_of_two(const struct atall_state *state)
{
    return (state->ranks & (state->ranks - 1)) == 0;
}

struct atall_body {
    const char *label;
    int (*run)(const struct atall_call *call);
    bool (*serves)(const struct atall_state *state); /* NULL: any communicator */
    /* Bytes of scratch on p ranks for blocks of n; NULL: none. */
    size_t (*scratch)(size_t p, size_t n, const struct atall_values *values);
    bool scratch_is_optional; /* it works without, too */
};

/* clang-format off */
static const struct atall_body atall_bodies[ATALL_BODIES] = {
    [ATALL_NATIVE] = { "native", atall_native, NULL, NULL, false },
    [ATALL_RING_NONE] = { "ring(sync=none)", atall_ring_none, NULL, NULL, false },
    [ATALL_SIMPLE_SCATTERED] = { "simple(order=scattered)", atall_simple_scattered, NULL, NULL, false },
    [ATALL_BRUCK] = { "bruck", atall_bruck, NULL, atall_bruck_bytes, false },
    [ATALL_PAIR_NONE] = { "pair(sync=none)", atall_pair_none, atall_power_of_two, NULL, false },
};
/* clang-format on */

/* ---- serving a call by a row ---------------------------------------------------------------- */

/* Bytes of scratch that a row wants for blocks of n. */
static size_t atall_wanted(const struct atall_state *state, const struct atall_row *row, size_t n)
{
    const struct atall_body *body = &atall_bodies[row->body];
    return body->scratch ? body->scratch((size_t)state->ranks, n, &row->values) : 0;
}

/* Whether the scratch that is kept is as much as a row wants for a block. */
static bool atall_has_scratch(const struct atall_state *state, const struct atall_row *row,
                              size_t block_bytes)
{
    size_t wanted = atall_wanted(state, row, block_bytes);
    return wanted == 0 || (block_bytes <= ATALL_SCRATCH_BLOCK && wanted <= state->scratch_bytes);
}

/* Whether a row's algorithm works without its scratch, too. */
static bool atall_spares_scratch(const struct atall_state *state, const struct atall_row *row)
{
    (void)state;
    return atall_bodies[row->body].scratch_is_optional;
}

/* The row for a block. Only what all ranks share decides: the bytes to each peer, and the
 * scratch they agreed on. NULL: the library's own routine. */
static const struct atall_row *atall_choose_row(const struct atall_state *state, size_t block_bytes)
{
    const struct atall_row *row = state->row;
    while (block_bytes > row->most)
        row++;
    if (atall_spares_scratch(state, row) || atall_has_scratch(state, row, block_bytes))
        return row;
    return NULL;
}

/* Whether a datatype is predefined; MPI 4 may not be asked in int about what has larger counts. */
static int atall_is_predefined(MPI_Datatype type, bool *predefined)
{
    int combiner, integers, addresses, types;
#if MPI_VERSION >= 4
    if (ATALL_IS_MPI_4) {
        MPI_Count some[4];
        ATALL_TRY(
            PMPI_Type_get_envelope_c(type, &some[0], &some[1], &some[2], &some[3], &combiner));
        *predefined = combiner == MPI_COMBINER_NAMED;
        return MPI_SUCCESS;
    }
#endif
    ATALL_TRY(PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    *predefined = combiner == MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}

/* Look at a datatype. What is plain is predefined, and known again by its handle. */
static int atall_look_at(struct atall_state *state, MPI_Datatype type, struct atall_type *seen)
{
    MPI_Aint bound;
    *seen = state->seen;
    if (type == seen->type)
        return MPI_SUCCESS;
    seen->type = type;
    ATALL_TRY(PMPI_Type_size_x(type, &seen->size));
    ATALL_TRY(PMPI_Type_get_extent(type, &bound, &seen->extent));
    ATALL_TRY(atall_is_predefined(type, &seen->plain));
    seen->plain = seen->plain && seen->size == seen->extent;
    if (seen->plain)
        state->seen = *seen;
    return MPI_SUCCESS;
}

/* Run one row's algorithm on the user's arguments. */
static int atall_run(struct atall_state *state, const struct atall_row *row, const void *sendbuf,
                     int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                     MPI_Datatype recvtype, size_t block_bytes)
{
    struct atall_type send, recv;
    ATALL_TRY(atall_look_at(state, sendtype, &send));
    ATALL_TRY(atall_look_at(state, recvtype, &recv));
    const struct atall_call call = {
        .sendbuf = (const char *)sendbuf,
        .recvbuf = (char *)recvbuf,
        .sendcount = sendcount,
        .recvcount = recvcount,
        .sendtype = sendtype,
        .recvtype = recvtype,
        .send_stride = sendcount * send.extent,
        .recv_stride = recvcount * recv.extent,
        .send_plain = send.plain,
        .recv_plain = recv.plain,
        .block_bytes = block_bytes,
        .comm = state->comm,
        .rank = state->rank,
        .ranks = state->ranks,
        .number = state->rank,
        .requests = state->requests,
        .scratch = state->scratch,
        .has_scratch = atall_has_scratch(state, row, block_bytes),
        .values = row->values,
    };
    return atall_bodies[row->body].run(&call);
}

/* ---- the entry --------------------------------------------------------------------------- */

/* How a call is served: by a row of a communicator's table, or by the library, and why. */
struct atall_choice {
    struct atall_state *state;
    const struct atall_row *row;
    const char *why;
    size_t block_bytes;
    bool disagrees; /* what is sent to each peer and what arrives are not as many bytes */
    bool is_raised; /* the user's error handler knows already */
};

/* What is no type, or is not committed, is an error on the communicator if MPI_Pack finds it;
 * functions that only ask about types would raise it on MPI_COMM_WORLD. */
static int atall_check_type(MPI_Datatype type, MPI_Comm comm)
{
    char nothing = 0;
    int position = 0;
    return PMPI_Pack(&nothing, 0, type, &nothing, 0, &position, comm);
}

/* Whether a buffer cannot be what the library takes, which has the error to raise then: MPI_BOTTOM
 * needs a type with addresses in it. */
static bool atall_is_wrong_buffer(const void *buffer, MPI_Datatype type, MPI_Comm comm)
{
    bool predefined = true;
    return buffer == NULL && (atall_check_type(type, comm) != MPI_SUCCESS ||
                              atall_is_predefined(type, &predefined) != MPI_SUCCESS || predefined);
}

/* Whether arguments are such that tuned code can serve them. Erroneous ones are not, nor is what
 * carries no data; where the program is correct all ranks say the same. */
static bool atall_takes(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                        const void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    if (comm == MPI_COMM_NULL || recvcount <= 0 || recvtype == MPI_DATATYPE_NULL ||
        recvbuf == MPI_IN_PLACE || atall_is_wrong_buffer(recvbuf, recvtype, comm))
        return false;
    if (sendbuf == MPI_IN_PLACE)
        return true;
    return sendcount >= 0 && sendtype != MPI_DATATYPE_NULL &&
           (sendcount == 0 || !atall_is_wrong_buffer(sendbuf, sendtype, comm)) &&
           !(sendbuf == recvbuf && sendcount == recvcount && sendtype == recvtype);
}

/* Obtain room for a copy of all blocks; false on all ranks if some rank cannot. */
static int atall_obtain_copy(struct atall_state *state, size_t bytes, bool *obtained)
{
    int have = 1;
    *obtained = bytes <= state->copy_bytes;
    if (*obtained || bytes > ATALL_SCRATCH_MOST)
        return MPI_SUCCESS;
    free(state->copy);
    state->copy = (char *)malloc(bytes);
    have = state->copy != NULL;
    ATALL_TRY(PMPI_Allreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, state->comm));
    *obtained = have;
    state->copy_bytes = have ? bytes : 0;
    return MPI_SUCCESS;
}

/* Copy what is sent in place as contiguous bytes, from which it is sent then. */
static int atall_copy_in_place(struct atall_state *state, const char *buffer, int count,
                               MPI_Datatype type, size_t block_bytes)
{
    struct atall_type seen;
    ATALL_TRY(atall_look_at(state, type, &seen));
    if (seen.plain) {
        memcpy(state->copy, buffer, state->ranks * block_bytes);
        return MPI_SUCCESS;
    }
    for (int to = 0; to < state->ranks; to++) {
        int position = 0;
        ATALL_TRY(PMPI_Pack(buffer + to * count * seen.extent, count, type,
                            state->copy + to * block_bytes, (int)block_bytes, &position,
                            state->comm));
    }
    return MPI_SUCCESS;
}

/* The size of a type that may be wrong. */
static int atall_size_of(MPI_Datatype type, MPI_Comm comm, struct atall_choice *choice,
                         size_t *size)
{
    MPI_Count bytes;
    int err;
    if (choice->state && type == choice->state->seen.type) {
        *size = (size_t)choice->state->seen.size;
        return MPI_SUCCESS;
    }
    err = atall_check_type(type, comm);
    choice->is_raised = err != MPI_SUCCESS;
    ATALL_TRY(err);
    ATALL_TRY(PMPI_Type_size_x(type, &bytes));
    *size = (size_t)bytes;
    return MPI_SUCCESS;
}

/* Choose for arguments that tuned code takes. */
static int atall_choose(struct atall_process *process, struct atall_choice *choice, bool in_place,
                        int sendcount, MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype,
                        MPI_Comm comm)
{
    size_t size, sent;
    int found;
    bool obtained = true;
    ATALL_TRY(PMPI_Comm_get_attr(comm, process->key, &choice->state, &found));
    if (!found)
        choice->state = NULL;
    ATALL_TRY(atall_size_of(recvtype, comm, choice, &size));
    choice->block_bytes = (size_t)recvcount * size;
    if (!in_place && (sendtype != recvtype || sendcount != recvcount)) {
        ATALL_TRY(atall_size_of(sendtype, comm, choice, &sent));
        choice->disagrees = (size_t)sendcount * sent != choice->block_bytes;
    }
    if (size == 0)
        return MPI_SUCCESS; /* not a first use: other ranks may have seen so by their counts */
    if (!found)
        ATALL_TRY(atall_make_state(process, comm, &choice->state));
    choice->why = choice->state->unserved;
    if (choice->why)
        return MPI_SUCCESS;
    choice->row = atall_choose_row(choice->state, choice->block_bytes);
    choice->why = "blocks too large for the scratch";
    if (!in_place || !choice->row)
        return MPI_SUCCESS;
    choice->why = "in place";
    if (choice->row->body != ATALL_NATIVE)
        ATALL_TRY(atall_obtain_copy(choice->state,
                                    (size_t)choice->state->ranks * choice->block_bytes, &obtained));
    if (!obtained || choice->row->body == ATALL_NATIVE)
        choice->row = NULL;
    return MPI_SUCCESS;
}

/* Take part in a call of which this rank sends more to each peer, or less, than arrives: others
 * wait for it. Each gets what both buffers have of its block, and the rest is zero. */
static int atall_serve_in_part(const struct atall_choice *choice, const char *sendbuf,
                               int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                               MPI_Datatype recvtype)
{
    const size_t n = choice->block_bytes, p = (size_t)choice->state->ranks;
    struct atall_type send;
    ATALL_TRY(atall_look_at(choice->state, sendtype, &send));
    const size_t most = send.size > 0 ? n / (size_t)send.size : 0;
    const int whole = most < (size_t)sendcount ? (int)most : sendcount;
    char *blocks = n <= INT_MAX ? (char *)calloc(p, n) : NULL;
    int err = blocks ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (size_t to = 0; err == MPI_SUCCESS && to < p; to++) {
        int position = 0;
        err = PMPI_Pack(sendbuf + (MPI_Aint)to * sendcount * send.extent, whole, sendtype,
                        blocks + to * n, (int)n, &position, choice->state->comm);
    }
    if (err == MPI_SUCCESS)
        err = atall_run(choice->state, choice->row, blocks, (int)n, MPI_BYTE, recvbuf, recvcount,
                        recvtype, n);
    free(blocks);
    return err == MPI_SUCCESS ? MPI_ERR_TRUNCATE : err;
}

/* Serve a call as it was chosen to. */
static int atall_serve(const struct atall_choice *choice, const void *sendbuf, int sendcount,
                       MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype)
{
    if (choice->disagrees)
        return atall_serve_in_part(choice, (const char *)sendbuf, sendcount, sendtype, recvbuf,
                                   recvcount, recvtype);
    if (sendbuf == MPI_IN_PLACE) {
        ATALL_TRY(atall_copy_in_place(choice->state, (const char *)recvbuf, recvcount, recvtype,
                                      choice->block_bytes));
        sendbuf = choice->state->copy;
        sendcount = (int)choice->block_bytes;
        sendtype = MPI_BYTE;
    }
    return atall_run(choice->state, choice->row, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                     recvtype, choice->block_bytes);
}

/* Count a call, if that is wanted. */
static void atall_count(struct atall_process *process, const struct atall_choice *choice,
                        MPI_Comm comm, double begin)
{
    int ranks = 0;
    if (!process || !process->stats || comm == MPI_COMM_NULL)
        return;
    PMPI_Comm_size(comm, &ranks);
    atall_count_call(process, ranks, choice->block_bytes,
                     choice->row ? choice->row->label : choice->why, PMPI_Wtime() - begin);
}

int ATALL_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct atall_process *process = NULL;
    struct atall_choice choice = { .why = "no data, or erroneous" };
    int err = atall_get_process(&process);
    double begin = process && process->stats ? PMPI_Wtime() : 0.0;

    if (err == MPI_SUCCESS && process &&
        atall_takes(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
        err = atall_choose(process, &choice, sendbuf == MPI_IN_PLACE, sendcount, sendtype,
                           recvcount, recvtype, comm);
    if (err == MPI_SUCCESS && choice.row)
        err = atall_serve(&choice, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype);
    else if (err == MPI_SUCCESS) {
        err = atall_library(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
        atall_count(process, &choice, comm, begin);
        return err; /* the library has raised it */
    }
    if (err != MPI_SUCCESS && !choice.is_raised)
        PMPI_Comm_call_errhandler(comm, err);
    atall_count(process, &choice, comm, begin);
    return err;
}

/* ---- what is kept with a communicator ---------------------------------------------------- */

/* Which file this is: all ranks of a communicator must have the same. */
enum { ATALL_FILE_MARK = 52362753 };

/* The same for people: atall-info finds it in every program and library with this file in it. */
enum { ATALL_MARK = 10 };
/* clang-format off */
static const char atall_info[][62] = {
    "@(#)atall not tuned: published cut-offs",
    "@(#)atall table for all numbers of ranks:",
    "@(#)atall   to 256 bytes: bruck(radix=2)",
    "@(#)atall   to 32768 bytes: simple(order=scattered,window=32)",
    "@(#)atall   beyond: pair(sync=none)",
    "@(#)atall table for all numbers of ranks:",
    "@(#)atall   to 256 bytes: bruck(radix=2)",
    "@(#)atall   to 32768 bytes: simple(order=scattered,window=32)",
    "@(#)atall   beyond: ring(sync=none)",
};
/* clang-format on */

static bool atall_parse_label(const char *label, struct atall_row *row);

/* Stand for communicators whose calls are the library's own. */
static struct atall_state atall_between_groups = { .unserved = "an inter-communicator" };
static struct atall_state atall_disabled = { .unserved = "ATALL_DISABLE" };
static struct atall_state atall_too_many = { .unserved = "too many communicators" };
static struct atall_state atall_no_memory = { .unserved = "no memory" };
static struct atall_state atall_other_file = { .unserved = "another file on some ranks" };

static bool atall_body_serves(int body, const struct atall_state *state)
{
    return !atall_bodies[body].serves || atall_bodies[body].serves(state);
}

static bool atall_row_serves(const struct atall_row *row, const struct atall_state *state)
{
    return atall_body_serves(row->body, state);
}

static bool atall_table_serves(const struct atall_table *table, const struct atall_state *state)
{
    for (int i = 0; i < table->rows; i++)
        if (!atall_row_serves(&table->row[i], state))
            return false;
    return true;
}

static double atall_ratio(double one, double other)
{
    return one > other ? one / other : other / one;
}

/* How far a communicator is from that on which a table was measured: 1 is exact, INT_MAX what
 * serves any. */
static double atall_distance(const struct atall_table *table, const struct atall_state *state)
{
    if (table->ranks == 0)
        return INT_MAX;
    double ranks = atall_ratio(table->ranks, state->ranks);
    return ranks;
}

/* The nearest table all of whose rows serve a communicator; the last one serves any. */
static const struct atall_table *atall_choose_table(const struct atall_state *state)
{
    const struct atall_table *best = &atall_tables[ATALL_TABLES - 1];
    for (int i = ATALL_TABLES - 1; i >= 0; i--)
        if (atall_table_serves(&atall_tables[i], state) &&
            atall_distance(&atall_tables[i], state) <= atall_distance(best, state))
            best = &atall_tables[i];
    return best;
}

/* Say which table serves a communicator; in more words, what all tables say. */
static void atall_announce(const struct atall_state *state, const struct atall_table *table,
                           int verbose)
{
    if (verbose < 1)
        return;
    fprintf(stderr, "ATALL: communicator of %d ranks", state->ranks);
    if (state->row == &state->forced)
        fprintf(stderr, ": forced %s\n", state->forced.label);
    else if (table->ranks && table->hosts)
        fprintf(stderr, ": table for %d ranks on %d host(s)\n", table->ranks, table->hosts);
    else if (table->ranks)
        fprintf(stderr, ": table for %d ranks\n", table->ranks);
    else
        fprintf(stderr, ": untuned table\n");
    for (size_t i = 0; verbose > 1 && i < sizeof atall_info / sizeof atall_info[0]; i++)
        fprintf(stderr, "ATALL:   %s\n", atall_info[i] + ATALL_MARK);
}

/* Rank 0 reads ATALL_FORCE for all, since only it is sure to have the user's environment. */
static int atall_choose_rows(struct atall_state *state, const struct atall_process *process)
{
    const struct atall_table *table = atall_choose_table(state);
    const char *label = getenv("ATALL_FORCE");
    struct atall_row *forced = &state->forced;
    int is_forced = 0;

    state->row = table->row;
    state->rows = table->rows;
    if (state->rank == 0 && label && *label) {
        is_forced = atall_parse_label(label, forced) && atall_body_serves(forced->body, state);
        if (!is_forced && process->verbose >= 0)
            fprintf(stderr, "ATALL: ATALL_FORCE=%s ignored: not here, or not for these %d ranks\n",
                    label, state->ranks);
    }
    ATALL_TRY(PMPI_Bcast(&is_forced, 1, MPI_INT, 0, state->comm));
    if (is_forced) {
        ATALL_TRY(PMPI_Bcast(forced, (int)sizeof *forced, MPI_BYTE, 0, state->comm));
        forced->most = SIZE_MAX;
        forced->label = atall_bodies[forced->body].label;
        state->row = forced;
        state->rows = 1;
    }
    if (state->rank == 0)
        atall_announce(state, table, process->verbose);
    return MPI_SUCCESS;
}

/* Bytes that a row gets as scratch; more is refused to it at the call, on all ranks alike. */
static size_t atall_row_scratch(const struct atall_state *state, const struct atall_row *row)
{
    size_t n = row->most < ATALL_SCRATCH_BLOCK ? row->most : ATALL_SCRATCH_BLOCK;
    size_t bytes = atall_wanted(state, row, n);
    return bytes < ATALL_SCRATCH_MOST ? bytes : ATALL_SCRATCH_MOST;
}

static bool atall_obtain_requests(struct atall_state *state)
{
    int requests = 2 * state->ranks;
    state->requests = (MPI_Request *)malloc((size_t)requests * sizeof(MPI_Request));
    return state->requests != NULL;
}

/* Obtain memory and agree on what all ranks have; 0 in *served if some rank has too little. */
static int atall_obtain_memory(struct atall_state *state, int *served)
{
    size_t most = 0;
    int have[2];
    for (int i = 0; i < state->rows; i++) {
        size_t bytes = atall_row_scratch(state, &state->row[i]);
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

/* Free what a state has, but not itself. */
static void atall_empty_state(struct atall_state *state)
{
    if (state->comm != MPI_COMM_NULL)
        PMPI_Comm_free(&state->comm);
    free(state->requests);
    free(state->scratch);
    free(state->copy);
}

/* Make a communicator of the user's group: MPI_Comm_dup would run the user's attribute callbacks.
 * The user's error handler must not hear of a failure. In MPI 4 ours is given; before that it takes
 * the place of the user's for as long as this lasts. `number` tells what several threads make
 * apart. */
static bool atall_create_comm(MPI_Comm user, MPI_Group group, int number, MPI_Comm *comm)
{
    MPI_Errhandler handler;
#if MPI_VERSION >= 4
    if (ATALL_IS_MPI_4) {
        char name[32];
        snprintf(name, sizeof name, "alltoall.c %d", number);
        return PMPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, comm) ==
               MPI_SUCCESS;
    }
#endif
    (void)number;
    if (PMPI_Comm_get_errhandler(user, &handler) != MPI_SUCCESS)
        return false;
    PMPI_Comm_set_errhandler(user, MPI_ERRORS_RETURN);
    bool made = PMPI_Comm_create(user, group, comm) == MPI_SUCCESS;
    PMPI_Comm_set_errhandler(user, handler);
    PMPI_Errhandler_free(&handler);
    return made;
}

/* The private communicator; MPI_COMM_NULL on all ranks where one cannot have it. */
static int atall_make_comm(MPI_Comm user, int number, MPI_Comm *comm)
{
    MPI_Group group;
    int made;
    ATALL_TRY(PMPI_Comm_group(user, &group));
    made = atall_create_comm(user, group, number, comm) && *comm != MPI_COMM_NULL;
    PMPI_Group_free(&group);
    if (!made)
        *comm = MPI_COMM_NULL;
    ATALL_TRY(PMPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, user));
    if (made)
        return PMPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
    return *comm == MPI_COMM_NULL ? MPI_SUCCESS : PMPI_Comm_free(comm);
}

/* Put a new state among those of the process. */
static void atall_register(struct atall_process *process, struct atall_state *state)
{
    atall_lock(process);
    state->next = process->served;
    state->link = &process->served;
    if (state->next)
        state->next->link = &state->next;
    process->served = state;
    process->served_count++;
    atall_unlock(process);
}

/* Wait for the first word of all ranks; who waits for long says what the likely cause is. */
static int atall_await_first(MPI_Comm comm, MPI_Request *request,
                             const struct atall_process *process)
{
    const double patience = 10.0, begin = PMPI_Wtime();
    int rank, ranks, come = 0;
    while (!come && PMPI_Wtime() - begin < patience)
        ATALL_TRY(PMPI_Test(request, &come, MPI_STATUS_IGNORE));
    if (come)
        return MPI_SUCCESS;
    ATALL_TRY(PMPI_Comm_rank(comm, &rank));
    ATALL_TRY(PMPI_Comm_size(comm, &ranks));
    if (process->verbose >= 0 && (rank == 0 || rank == ranks - 1))
        fprintf(
            stderr,
            "ATALL: rank %d of %d has waited %.0f s for the others' first MPI_Alltoall: is this "
            "file in, or preloaded under, the program on some ranks only?\n",
            rank, ranks, patience);
    return PMPI_Wait(request, MPI_STATUS_IGNORE);
}

/* Whether all ranks may serve a communicator: they have the same file and memory for a state, none
 * serves too many, and rank 0 has not set ATALL_DISABLE. Returns what says why not, or NULL; and a
 * number that rank 0 gives to no other communicator. */
static int atall_agree_to_serve(MPI_Comm comm, struct atall_process *process, bool has_memory,
                                struct atall_state **refused, int *number)
{
    enum { DISABLED, MOST_MARK, LEAST_MARK, TOO_MANY, NO_MEMORY, NUMBER, WORDS };
    const char *disable = getenv("ATALL_DISABLE");
    int between_groups, rank, said[WORDS] = { 0 };
    MPI_Request request;
    *refused = &atall_between_groups;
    ATALL_TRY(PMPI_Comm_test_inter(comm, &between_groups));
    if (between_groups)
        return MPI_SUCCESS;
    ATALL_TRY(PMPI_Comm_rank(comm, &rank));
    said[DISABLED] = rank == 0 && disable && *disable && strcmp(disable, "0") != 0;
    said[MOST_MARK] = ATALL_FILE_MARK;
    said[LEAST_MARK] = -ATALL_FILE_MARK;
    atall_lock(process);
    said[TOO_MANY] = process->served_count >= ATALL_MOST_SERVED;
    said[NUMBER] = rank == 0 ? process->number++ : 0;
    atall_unlock(process);
    said[NO_MEMORY] = !has_memory;
    ATALL_TRY(PMPI_Iallreduce(MPI_IN_PLACE, said, WORDS, MPI_INT, MPI_MAX, comm, &request));
    ATALL_TRY(atall_await_first(comm, &request, process));
    *number = said[NUMBER];
    *refused = said[DISABLED]                         ? &atall_disabled
               : said[MOST_MARK] != -said[LEAST_MARK] ? &atall_other_file
               : said[TOO_MANY]                       ? &atall_too_many
               : said[NO_MEMORY]                      ? &atall_no_memory
                                                      : NULL;
    if (*refused == &atall_other_file && rank == 0 && process->verbose >= 0)
        fprintf(stderr, "ATALL: not all ranks have the same alltoall.c: they get the library's own "
                        "MPI_Alltoall\n");
    return MPI_SUCCESS;
}

/* Fill in a state that has its communicator; 0 in *served if some rank lacks memory. */
static int atall_fill_state(struct atall_state *state, const struct atall_process *process,
                            int *served)
{
    ATALL_TRY(PMPI_Comm_rank(state->comm, &state->rank));
    ATALL_TRY(PMPI_Comm_size(state->comm, &state->ranks));
    ATALL_TRY(atall_choose_rows(state, process));
    return atall_obtain_memory(state, served);
}

/* First use of a communicator. */
static int atall_make_state(struct atall_process *process, MPI_Comm user, struct atall_state **made)
{
    struct atall_state *state = (struct atall_state *)calloc(1, sizeof *state);
    int served = 0, number = 0;
    int err = atall_agree_to_serve(user, process, state != NULL, made, &number);
    if (state)
        state->comm = MPI_COMM_NULL;
    if (err == MPI_SUCCESS && !*made) {
        *made = &atall_too_many;
        err = atall_make_comm(user, number, &state->comm);
        if (err == MPI_SUCCESS && state->comm != MPI_COMM_NULL) {
            err = atall_fill_state(state, process, &served);
            *made = served ? state : &atall_no_memory;
        }
    }
    if (err == MPI_SUCCESS)
        err = PMPI_Comm_set_attr(user, process->key, *made);
    if (err == MPI_SUCCESS && *made == state)
        atall_register(process, state);
    else if (state) {
        atall_empty_state(state);
        free(state);
    }
    return err;
}

/* ---- what is kept with the process -------------------------------------------------------- */

static void atall_print_counts(const struct atall_process *process);

/* Called by MPI when the user's communicator is freed. Once the process has ended nothing is left.
 * MPICH 3 still finds the state in the user's own delete callbacks: the last one stays for them. */
static int atall_delete_state(MPI_Comm comm, int key, void *value, void *extra)
{
    struct atall_state *state = (struct atall_state *)value;
    struct atall_process *process = atomic_load(&atall_process);
    struct atall_state *before;
    (void)comm, (void)key, (void)extra;
    if (process == &atall_ended || state->unserved)
        return MPI_SUCCESS;
    atall_lock(process);
    *state->link = state->next;
    if (state->next)
        state->next->link = state->link;
    process->served_count--;
    before = process->gone;
    process->gone = state;
    atall_unlock(process);
    atall_empty_state(state);
    state->unserved = "being freed";
    free(before);
    return MPI_SUCCESS;
}

/* Called by MPI_Finalize, before anything else: print what was counted, free what is kept. */
static int atall_finish(MPI_Comm comm, int key, void *value, void *extra)
{
    struct atall_process *process = (struct atall_process *)value;
    (void)comm, (void)extra;
    if (process->stats)
        atall_print_counts(process);
    atomic_store(&atall_process, &atall_ended);
    while (process->served) {
        struct atall_state *state = process->served;
        process->served = state->next;
        atall_empty_state(state);
        free(state);
    }
    free(process->gone);
    while (process->counts) {
        struct atall_count *count = process->counts;
        process->counts = count->next;
        free(count);
    }
    PMPI_Comm_free_keyval(&process->key);
    PMPI_Comm_free_keyval(&key);
    free(process);
    return MPI_SUCCESS;
}

/* The first call of the process. Of several threads one keeps what it made. */
static int atall_make_process(struct atall_process **made)
{
    struct atall_process *none = NULL;
    struct atall_process *process = (struct atall_process *)calloc(1, sizeof *process);
    const char *verbose = getenv("ATALL_VERBOSE"), *stats = getenv("ATALL_STATS");
    int key;
    *made = NULL;
    if (!process)
        return MPI_ERR_NO_MEM;
    process->verbose = !verbose || !*verbose ? 0 : atoi(verbose) > 0 ? atoi(verbose) : -1;
    process->stats = stats && *stats && strcmp(stats, "0") != 0 ? stats : NULL;
    process->number = (int)((uint64_t)(PMPI_Wtime() * 1e6) % 0xffffff * 64);
    atomic_flag_clear(&process->busy);
    ATALL_TRY(
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, atall_delete_state, &process->key, NULL));
    if (!atomic_compare_exchange_strong(&atall_process, &none, process)) {
        PMPI_Comm_free_keyval(&process->key);
        free(process);
        *made = none;
        return MPI_SUCCESS;
    }
    *made = process;
    ATALL_TRY(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, atall_finish, &key, NULL));
    return PMPI_Comm_set_attr(MPI_COMM_SELF, key, process);
}

/* What is kept with the process; NULL where nothing can be: in a program that has sessions only,
 * and once MPI_Finalize frees what hangs on MPI_COMM_SELF. */
static int atall_get_process(struct atall_process **process)
{
    int begun = 0, over = 0;
    *process = atomic_load_explicit(&atall_process, memory_order_acquire);
    if (*process == &atall_ended)
        *process = NULL;
    else if (!*process) {
        PMPI_Initialized(&begun);
        PMPI_Finalized(&over);
        if (begun && !over)
            return atall_make_process(process);
    }
    return MPI_SUCCESS;
}

/* ---- forcing an algorithm by its label: name(parameter=value,...) ------------------------ */

enum { ATALL_MOST_NUMBER = 999999999 };

struct atall_number {
    const char *name;
    int least;
    size_t offset;
    const char *words; /* its values 0, 1, ... by name, each followed by a comma; or NULL */
};

/* clang-format off */
static const struct atall_number atall_numbers[] = {
    { "first", 1, offsetof(struct atall_values, first), NULL },
    { "hops", 0, offsetof(struct atall_values, hops), "ring,mesh," },
    { "radix", 2, offsetof(struct atall_values, radix), NULL },
    { "window", 1, offsetof(struct atall_values, window), NULL },
};
/* clang-format on */

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
        if (value < number->least || value > ATALL_MOST_NUMBER)
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
    if (strcmp(item, strchr(label, '(') ? ")" : "") != 0)
        return false;
    if (strchr(name, '('))
        name[used] = ')';
    for (row->body = 0; row->body < ATALL_BODIES; row->body++)
        if (strcmp(name, atall_bodies[row->body].label) == 0)
            return true;
    return false;
}

/* ---- statistics: what the program called ---------------------------------------------------- */

/* Add one call to those of its kind; without memory for a new kind it goes uncounted. */
static void atall_count_call(struct atall_process *process, int ranks, size_t block_bytes,
                             const char *served_by, double seconds)
{
    struct atall_count **end = &process->counts, *count;
    atall_lock(process);
    while ((count = *end) && (count->ranks != ranks || count->block_bytes != block_bytes ||
                              strcmp(count->served_by, served_by) != 0))
        end = &count->next;
    if (!count && (count = (struct atall_count *)malloc(sizeof *count))) {
        *count = (struct atall_count){ NULL, ranks, block_bytes, served_by, 0, 0.0 };
        *end = count;
    }
    if (count) {
        count->calls++;
        count->seconds += seconds;
    }
    atall_unlock(process);
}

/* Rank 0 prints what it counted. */
static void atall_print_counts(const struct atall_process *process)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0)
        return;
    bool to_file = strcmp(process->stats, "1") != 0;
    FILE *file = to_file ? fopen(process->stats, "w") : stderr;
    if (!file) {
        fprintf(stderr, "ATALL: cannot write ATALL_STATS=%s\n", process->stats);
        return;
    }
    fprintf(file, "# ATALL: rank 0's calls of MPI_Alltoall\n"
                  "# ranks bytes-to-each-peer calls seconds served-by\n");
    for (const struct atall_count *count = process->counts; count; count = count->next)
        fprintf(file, "%d %zu %lld %.6f %s\n", count->ranks, count->block_bytes, count->calls,
                count->seconds, count->served_by);
    if (to_file && fclose(file) != 0)
        fprintf(stderr, "ATALL: cannot write ATALL_STATS=%s\n", process->stats);
}

#if MPI_VERSION >= 4
/* So many elements as one of a larger type. */
static int atall_bundle(MPI_Count count, MPI_Datatype type, MPI_Datatype *bundle)
{
    ATALL_TRY(PMPI_Type_contiguous_c(count, type, bundle));
    return PMPI_Type_commit(bundle);
}

int ATALL_Alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    const bool in_place = sendbuf == MPI_IN_PLACE;
    MPI_Datatype send = MPI_DATATYPE_NULL, recv = MPI_DATATYPE_NULL;
    if ((in_place || (sendcount >= 0 && sendcount <= INT_MAX)) && recvcount >= 0 &&
        recvcount <= INT_MAX)
        return ATALL_Alltoall(sendbuf, in_place ? 0 : (int)sendcount, sendtype, recvbuf,
                              (int)recvcount, recvtype, comm);
    if (comm == MPI_COMM_NULL || (!in_place && (sendcount < 0 || sendtype == MPI_DATATYPE_NULL)) ||
        recvcount < 0 || recvtype == MPI_DATATYPE_NULL)
        return PMPI_Alltoall_c(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    int err = in_place ? MPI_SUCCESS : atall_bundle(sendcount, sendtype, &send);
    if (err == MPI_SUCCESS)
        err = atall_bundle(recvcount, recvtype, &recv);
    if (err == MPI_SUCCESS)
        err = ATALL_Alltoall(sendbuf, 1, send, recvbuf, 1, recv, comm);
    else
        PMPI_Comm_call_errhandler(comm, err);
    if (send != MPI_DATATYPE_NULL)
        PMPI_Type_free(&send);
    if (recv != MPI_DATATYPE_NULL)
        PMPI_Type_free(&recv);
    return err;
}

#endif
#if defined ATALL_OVERRIDE || defined ATALL_WRAP
/* ---- the same under the names that a program calls --------------------------------------- */

/* A definition of NAME with MPI_Alltoall's arguments and counts of a type; a profiler that is
 * linked with the program may define it, too. */
#define ATALL_DEFINE(NAME, COUNT, OURS)                                                            \
    __attribute__((weak)) int NAME(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype,    \
                                   void *recvbuf, COUNT recvcount, MPI_Datatype recvtype,          \
                                   MPI_Comm comm);                                                 \
    int NAME(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf,           \
             COUNT recvcount, MPI_Datatype recvtype, MPI_Comm comm)                                \
    {                                                                                              \
        return OURS(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);             \
    }

#ifdef ATALL_OVERRIDE
ATALL_DEFINE(MPI_Alltoall, int, ATALL_Alltoall)
#if MPI_VERSION >= 4
ATALL_DEFINE(MPI_Alltoall_c, MPI_Count, ATALL_Alltoall_c)
#endif
#endif
#ifdef ATALL_WRAP
ATALL_DEFINE(__wrap_MPI_Alltoall, int, ATALL_Alltoall)
ATALL_DEFINE(__wrap_PMPI_Alltoall, int, ATALL_Alltoall)
#if MPI_VERSION >= 4
ATALL_DEFINE(__wrap_MPI_Alltoall_c, MPI_Count, ATALL_Alltoall_c)
#endif
#endif
#endif
