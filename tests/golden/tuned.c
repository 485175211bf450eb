/*
 * alltoall.c - MPI_Alltoall for one cluster, chosen by measurement.
 *
 * Tuned by ATALL with MPICH 4.0.2
 * for 8 ranks on 4 host(s); fingerprint 226fca38656496c6.
 * There was interference meanwhile, as was accepted: h0 resends while idle.
 * The cluster was emulated at 1/2 of its speed, but
 * for blocks in one frame, which had its full speed. Delayed acknowledgements and what processors
 * do for each message were not slowed down: cut-offs of a few frames are a dilated cluster's.
 * Others had 11% of the processors meanwhile.
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
    /* messages under way on a cable at a time: 1, or 2 (or more: the same) */
    int depth;
    /* base of the lowest digit, if it has one of its own: a mesh of first x radix x radix x
     * ... ranks */
    int first;
    /* a distance is counted round a ring of ranks, or digit by digit, as in a mesh, where the
     * digits just reach */
    int hops;
    /* of the q ranks of each host, who exchange the blocks of all of them between hosts; 0:
     * all speak for themselves */
    int leaders;
    /* base of the digits: about (radix-1) log_radix p messages */
    int radix;
    /* bytes of a part; 0: blocks are whole */
    int segment;
};

enum {
    ATALL_HOPS_RING,
    ATALL_HOPS_MESH,
};

/* clang-format off */
enum {
    ATALL_NATIVE,
    ATALL_RING_LIGHT,
    ATALL_BRUCK,
    ATALL_PHASED_SENDER,
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

/* Measured on 8 ranks; for those nearest to it that all its rows can serve. */
static const struct atall_row atall_rows_0[] = {
    /* at 64 B: 1.02 (0.97-1.08) x bruck(radix=2), not distinguishable; 54 calls, 0
     * retransmissions; a small block, where time is dilated 2 x; bruck(radix=2) led in the
     * search, but not when that was confirmed */
    { 181, ATALL_NATIVE, { 0 }, "native" },
    /* at 1 KiB: 1.52 (1.40-1.61) x native and 1.20 (1.10-1.30) x gather_scatter; 30 calls, 0
     * retransmissions; two modes, 1 and 1.4 ms; times on the scheduler's ticks; 3 more rounds
     * were disturbed */
    { 3000, ATALL_BRUCK, { .leaders = 1, .radix = 2 }, "bruck(radix=2,leaders=1)" },
    /* at 64 KiB: 2.10 (1.90-2.40; with time-outs 5.30) x native and 1.30 (1.25-1.36) x
     * ring(sync=light); 94% of the bandwidth bound; 12 calls, 7 retransmissions */
    { SIZE_MAX, ATALL_PHASED_SENDER, { .depth = 1 }, "phased(sync=sender,segment=0,depth=1)" },
};

/* Measured on 8 ranks; for any. */
static const struct atall_row atall_rows_1[] = {
    /* not confirmed */
    { 512, ATALL_NATIVE, { 0 }, "native" },
    /* by hand */
    { SIZE_MAX, ATALL_RING_LIGHT, { 0 }, "ring(sync=light)" },
};

static const struct atall_table atall_tables[] = {
    { 8, 0, 0, 0.0, 3, atall_rows_0 },
    { 8, 0, 0, 0.0, 2, atall_rows_1 },
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
    const struct atall_schedule *schedule;
    struct atall_values values;
};

enum { ATALL_MOST_PARTS = 16 }; /* into which a block is cut */

enum {
    ATALL_TAG_BLOCK = 1,
    ATALL_TAG_TOKEN = 2,
    ATALL_TAG_OWN = 3,
    ATALL_TAG_HOST = 4,
    ATALL_TAG_PHASE = 5,
};

/* Pass the first MPI error on to the entry. */
#define ATALL_TRY(statement)                                                                       \
    do {                                                                                           \
        int err_ = (statement);                                                                    \
        if (err_ != MPI_SUCCESS)                                                                   \
            return err_;                                                                           \
    } while (0)

/* A node of the cluster's tree. */
struct atall_node {
    int parent; /* a smaller number; the first node is the top: -1 */
    int speed;  /* of the cable to the parent, in Mbit/s; all 1 where that is not known */
};

/* Where the ranks of a communicator are. */
struct atall_tree {
    bool made; /* no: some are on hosts that the tree does not have, or without memory for this */
    int *home; /* the node of each */
};

/* How deep a row lets messages follow each other on a cable. */
enum { ATALL_MOST_DEPTH = 1 };

/*
 * Tokens let messages go. A token is a message of zero bytes to the sender of the message that it
 * lets go, from the receiver of the one before it, or from its sender. One that a rank would send
 * to itself is no message.
 */
struct atall_tokens {
    int *waits;         /* tokens that each of our sends waits for */
    int *waiting;       /* of a call under way: a copy of waits */
    int count;          /* how many come from other ranks */
    int *from, *allows; /* from whom, and for which of our sends */
    int *release;       /* our receive (or send) i sends tokens release[i] .. release[i + 1] - 1 */
    int *to, *tag;      /* to whom, and for which of its sends */
};

enum { ATALL_BY_RECEIVER, ATALL_BY_SENDER, ATALL_BY };

/* What a rank does in a planned all-to-all: its sends and receives in the order of their phases. */
struct atall_schedule {
    bool tried, made;
    int phases, peers;
    uint64_t ticks, bound;           /* what all phases take, and what they must take */
    int *to, *from;                  /* one of each peer, by phase */
    int *send_phase, *receive_phase; /* the phase of each */
    struct atall_tokens tokens[ATALL_MOST_DEPTH][ATALL_BY]; /* [depth - 1] */
    int requests;                                           /* that a call has at the most */
    MPI_Request *request;                                   /* room for them */
};

/* Which ranks of a communicator share a host. */
struct atall_hosts {
    bool made;
    int count;
    int *of; /* the number of each rank's host, in the order in which they come */
};

/*
 * A row with leaders: the ranks of a host hand their blocks to some of them, which exchange fewer
 * and larger messages between hosts. Of L leaders the l-th takes all that is for the ranks l,
 * l + L, ... of each host. The row's algorithm serves between the hosts, among the ranks that stand
 * at the same place on their hosts.
 */
struct atall_leaders {
    bool made;
    int hosts, each; /* hosts with so many ranks each; 0: they differ, or have one */
    int host, place; /* of this rank: its host's number, its own among the host's */
    int *member;     /* the rank at [host * each + place] */
    struct atall_state *across;
};

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

/* Light synchronisation: allow one rank to send to us, and wait until another allows us; both by
 * their numbers in the ranking. */
static int atall_token(const struct atall_call *call, int next_from, int next_to)
{
    return PMPI_Sendrecv(NULL, 0, MPI_BYTE, atall_ranked(call, next_from), ATALL_TAG_TOKEN, NULL, 0,
                         MPI_BYTE, atall_ranked(call, next_to), ATALL_TAG_TOKEN, call->comm,
                         MPI_STATUS_IGNORE);
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

/* How blocks are cut: into parts of so many bytes, the last one with what is left. One part is the
 * block as the user has it. All ranks cut alike. */
struct atall_cut {
    int parts;
    size_t bytes;
};

static struct atall_cut atall_cut_blocks(const struct atall_call *call)
{
    const size_t n = call->block_bytes, least = (n - 1) / ATALL_MOST_PARTS + 1;
    size_t bytes = (size_t)call->values.segment;
    if (bytes == 0 || bytes >= n || !call->has_scratch)
        return (struct atall_cut){ 1, n };
    bytes = bytes > least ? bytes : least;
    return (struct atall_cut){ (int)((n - 1) / bytes + 1), bytes };
}

/* Bytes of the i-th part. */
static int atall_part_bytes(const struct atall_call *call, const struct atall_cut *cut, int i)
{
    return (int)(i < cut->parts - 1 ? cut->bytes : call->block_bytes - i * cut->bytes);
}

/* Start receiving the block of a peer. */
static int atall_irecv(const struct atall_call *call, int from, MPI_Request *request)
{
    return PMPI_Irecv(atall_recv_block(call, from), call->recvcount, call->recvtype, from,
                      ATALL_TAG_BLOCK, call->comm, request);
}

/* Start receiving the block of a peer in parts; the last but one is request `key`. */
static int atall_start_receive(const struct atall_call *call, const struct atall_cut *cut, int from,
                               MPI_Request *requests, int key, int *last)
{
    char *bytes = atall_recv_block(call, from);
    if (cut->parts == 1)
        return atall_irecv(call, from, &requests[key]);
    if (!call->recv_plain)
        bytes = call->scratch + (call->ranks + from) * call->block_bytes;
    for (int i = 0; i < cut->parts; i++)
        ATALL_TRY(PMPI_Irecv(bytes + i * cut->bytes, atall_part_bytes(call, cut, i), MPI_BYTE, from,
                             ATALL_TAG_BLOCK, call->comm,
                             &requests[i == cut->parts - 2 ? key : (*last)++]));
    return MPI_SUCCESS;
}

/* Start sending a peer its block. */
static int atall_isend(const struct atall_call *call, int to, MPI_Request *request)
{
    return PMPI_Isend(atall_send_block(call, to), call->sendcount, call->sendtype, to,
                      ATALL_TAG_BLOCK, call->comm, request);
}

/* Start sending a peer its block in parts. The last but one, at whose end the message counts as
 * gone, is request `key`; the others come last. Types that are not plain are packed. */
static int atall_start_send(const struct atall_call *call, const struct atall_cut *cut, int to,
                            MPI_Request *requests, int key, int *last)
{
    const char *bytes = atall_send_block(call, to);
    if (cut->parts == 1)
        return atall_isend(call, to, &requests[key]);
    if (!call->send_plain) {
        char *packed = call->scratch + to * call->block_bytes;
        ATALL_TRY(atall_pack(call, to, packed));
        bytes = packed;
    }
    for (int i = 0; i < cut->parts; i++)
        ATALL_TRY(PMPI_Isend(bytes + i * cut->bytes, atall_part_bytes(call, cut, i), MPI_BYTE, to,
                             ATALL_TAG_BLOCK, call->comm,
                             &requests[i == cut->parts - 2 ? key : (*last)++]));
    return MPI_SUCCESS;
}

/* Read what arrived in parts and is not plain. */
static int atall_unpack_parts(const struct atall_call *call, const struct atall_cut *cut)
{
    for (int from = 0; from < call->ranks && cut->parts > 1 && !call->recv_plain; from++)
        if (from != call->rank)
            ATALL_TRY(
                atall_unpack(call, call->scratch + (call->ranks + from) * call->block_bytes, from));
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
 * Light synchronisation: a rank that has received in one step sends a token to its sender of
 * the next, which waits for it, so that steps do not overlap at a receiver.
 * Faraj and Yuan 4.2. Cost: (p-1)*(alpha + n*beta) + (p-2)*delta_l + gamma.
 */
static int atall_ring_light(const struct atall_call *call)
{
    const int p = call->ranks, own = call->number;
    ATALL_TRY(atall_copy_own(call));
    for (int step = 1; step < p; step++) {
        ATALL_TRY(atall_exchange(call, (own + step) % p, (own - step + p) % p));
        if (step < p - 1)
            ATALL_TRY(atall_token(call, (own - step - 1 + p) % p, (own + step + 1) % p));
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

/* Start receiving the i-th token; its tag says for which of our sends it is. */
static int atall_await_token(const struct atall_call *call, const struct atall_tokens *tokens,
                             int i, MPI_Request *request)
{
    return PMPI_Irecv(NULL, 0, MPI_BYTE, tokens->from[i], ATALL_TAG_PHASE + tokens->allows[i],
                      call->comm, request);
}

/* Whether all that a rank receives in earlier phases than its i-th send's has arrived; at a depth
 * of 2 the one just before may be under way. */
static bool atall_is_due(const struct atall_schedule *schedule, int depth, int i, int arrived)
{
    return arrived == schedule->peers ||
           schedule->receive_phase[arrived] > schedule->send_phase[i] - depth;
}

/* Our i-th receive is there, or our i-th send gone: let go what waited for it. */
static int atall_release(const struct atall_call *call, const struct atall_tokens *tokens, int i,
                         MPI_Request *requests, int *last)
{
    for (int t = tokens->release[i]; t < tokens->release[i + 1]; t++)
        if (tokens->to[t] == call->rank)
            tokens->waiting[tokens->tag[t]]--;
        else
            ATALL_TRY(PMPI_Isend(NULL, 0, MPI_BYTE, tokens->to[t], ATALL_TAG_PHASE + tokens->tag[t],
                                 call->comm, &requests[(*last)++]));
    return MPI_SUCCESS;
}

/*
 * Phased: messages leave in the order of contention-free phases, as many as the busiest cable
 * carries blocks.
 * A message leaves when those before it on its cables have left: their senders say so by tokens
 * of zero bytes. No rank waits for a phase as a whole, but each for what it must receive in
 * earlier ones.
 * Faraj and Yuan 4.2. Cost: phases*(alpha + n*beta + delta_l).
 */
static int atall_phased_sender(const struct atall_call *call)
{
    const struct atall_schedule *schedule = call->schedule;
    const int peers = call->ranks - 1;
    MPI_Request *requests = schedule->request;
    const int most = ATALL_MOST_DEPTH;
    const int depth = call->values.depth < most ? call->values.depth : most;
    const struct atall_tokens *tokens = &schedule->tokens[depth - 1][ATALL_BY_SENDER];
    const struct atall_cut cut = atall_cut_blocks(call);
    const int first_send = peers + tokens->count; /* receives and tokens come before */
    const int watched = first_send + peers;
    int next = 0, arrived = 0, index, *waiting = tokens->waiting, last = first_send + peers;

    for (int i = 0; i < peers; i++) {
        ATALL_TRY(atall_start_receive(call, &cut, schedule->from[i], requests, i, &last));
        requests[first_send + i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < tokens->count; i++)
        ATALL_TRY(atall_await_token(call, tokens, i, &requests[peers + i]));
    memcpy(waiting, tokens->waits, (size_t)peers * sizeof *waiting);
    for (int done = 0; done < watched || next < peers; done++) {
        while (arrived < peers && requests[arrived] == MPI_REQUEST_NULL)
            arrived++;
        for (; next < peers && !waiting[next] && atall_is_due(schedule, depth, next, arrived);
             next++)
            ATALL_TRY(atall_start_send(call, &cut, schedule->to[next], requests, first_send + next,
                                       &last));
        if (done >= watched)
            break;
        ATALL_TRY(PMPI_Waitany(watched, requests, &index, MPI_STATUS_IGNORE));
        if (index >= peers && index < first_send)
            waiting[tokens->allows[index - peers]]--;
        else if (index >= first_send)
            ATALL_TRY(atall_release(call, tokens, index - first_send, requests, &last));
    }
    ATALL_TRY(atall_copy_own(call));
    ATALL_TRY(PMPI_Waitall(last - watched, requests + watched, MPI_STATUSES_IGNORE));
    return atall_unpack_parts(call, &cut);
}

static size_t atall_phased_sender_bytes(size_t p, size_t n, const struct atall_values *values)
{
    (void)values;
    return 2 * p * n * (values->segment > 0);
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
    struct atall_tree tree;
    struct atall_schedule schedule;
    struct atall_hosts hosts;
    struct atall_leaders leaders;
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

static bool atall_topology(const struct atall_state *state)
{
    return state->tree.made;
}

struct atall_body {
    const char *label;
    int (*run)(const struct atall_call *call);
    bool (*serves)(const struct atall_state *state); /* NULL: any communicator */
    /* Bytes of scratch on p ranks for blocks of n; NULL: none. */
    size_t (*scratch)(size_t p, size_t n, const struct atall_values *values);
    bool scratch_is_optional; /* it works without, too */
    /* Sets up what it keeps, on all ranks of `all` or none; NULL: nothing. */
    int (*awake)(struct atall_state *state, MPI_Comm all);
};

static int atall_set_up_schedule(struct atall_state *state, MPI_Comm all);

/* clang-format off */
static const struct atall_body atall_bodies[ATALL_BODIES] = {
    [ATALL_NATIVE] = { "native", atall_native, NULL, NULL, false, NULL },
    [ATALL_RING_LIGHT] = { "ring(sync=light)", atall_ring_light, NULL, NULL, false, NULL },
    [ATALL_BRUCK] = { "bruck", atall_bruck, NULL, atall_bruck_bytes, false, NULL },
    [ATALL_PHASED_SENDER] = { "phased(sync=sender)", atall_phased_sender, atall_topology, atall_phased_sender_bytes, true, atall_set_up_schedule },
};
/* clang-format on */

/* ---- serving a call by a row ---------------------------------------------------------------- */

/* ---- a call between hosts ---------------------------------------------------------------- */

/* Ranks of a host whom one leader serves. */
static int atall_share(const struct atall_leaders *hosts, int leaders)
{
    return leaders < hosts->each ? (hosts->each + leaders - 1) / leaders : 1;
}

/* Bytes that a leader has for each host, for blocks of n. */
static size_t atall_host_block(const struct atall_leaders *hosts, const struct atall_values *values,
                               size_t n)
{
    return (size_t)hosts->each * (size_t)atall_share(hosts, values->leaders) * n;
}

/* Bytes of scratch beside those of the algorithm: one part for each leader, two of a leader's. */
static size_t atall_host_scratch(const struct atall_leaders *hosts,
                                 const struct atall_values *values, size_t n)
{
    const int leaders = values->leaders < hosts->each ? values->leaders : hosts->each;
    size_t packet = (size_t)hosts->hosts * (size_t)atall_share(hosts, leaders) * n;
    return ((size_t)(leaders + 2 * hosts->each) * packet + 63) / 64 * 64;
}

/* Give each leader of the host the blocks that it takes, and take as a leader those of the others:
 * for each rank of the host, each host, each rank there that we serve. */
static int atall_hand_over(const struct atall_state *state, const struct atall_call *call,
                           int leaders, char *out, char *taken)
{
    const struct atall_leaders *hosts = &state->leaders;
    const int each = state->leaders.each, share = atall_share(&state->leaders, leaders);
    const int *here = hosts->member + hosts->host * each;
    const size_t n = call->block_bytes, packet = state->leaders.hosts * share * n;
    int posted = 0;

    for (int i = 0; hosts->place < leaders && i < each; i++)
        if (i != hosts->place)
            ATALL_TRY(PMPI_Irecv(taken + i * packet, (int)packet, MPI_BYTE, here[i], ATALL_TAG_HOST,
                                 call->comm, &call->requests[posted++]));
    for (int leader = 0; leader < leaders; leader++) {
        bool is_ours = leader == hosts->place;
        char *packed = is_ours ? taken + leader * packet : out + leader * packet;
        for (int i = 0; i < state->leaders.hosts * share; i++) {
            int to = leader + i % share * leaders;
            if (to < each)
                ATALL_TRY(atall_pack(call, hosts->member[i / share * each + to], packed + i * n));
            else
                memset(packed + i * n, 0, n); /* the last leaders serve fewer */
        }
        if (!is_ours)
            ATALL_TRY(PMPI_Isend(packed, (int)packet, MPI_BYTE, here[leader], ATALL_TAG_HOST,
                                 call->comm, &call->requests[posted++]));
    }
    return PMPI_Waitall(posted, call->requests, MPI_STATUSES_IGNORE);
}

/* Give each rank that we serve what came for it, and take our own from our leader: a block of each
 * rank, host after host. */
static int atall_hand_out(const struct atall_state *state, const struct atall_call *call,
                          int leaders, const char *sorted, char *taken)
{
    const struct atall_leaders *hosts = &state->leaders;
    const int each = state->leaders.each, p = call->ranks;
    const int *here = hosts->member + hosts->host * each;
    const size_t n = call->block_bytes, row = p * n;
    const char *mine = hosts->place < leaders ? sorted : taken;
    int posted = 0;

    if (hosts->place >= leaders)
        ATALL_TRY(PMPI_Irecv(taken, (int)row, MPI_BYTE, here[hosts->place % leaders],
                             ATALL_TAG_HOST, call->comm, &call->requests[posted++]));
    for (int to = hosts->place + leaders; hosts->place < leaders && to < each; to += leaders)
        ATALL_TRY(PMPI_Isend(sorted + to / leaders * row, (int)row, MPI_BYTE, here[to],
                             ATALL_TAG_HOST, call->comm, &call->requests[posted++]));
    ATALL_TRY(PMPI_Waitall(posted, call->requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < p; i++)
        ATALL_TRY(atall_unpack(call, mine + i * n, hosts->member[i]));
    return MPI_SUCCESS;
}

/* Whether a row's algorithm runs between hosts: where each has as many ranks as the others. */
static bool atall_leaders_wrap(const struct atall_state *state, const struct atall_values *values)
{
    return values->leaders > 0 && state->leaders.each > 1;
}

/* Where its algorithm runs. */
static struct atall_state *atall_leaders_inner(struct atall_state *state)
{
    return state->leaders.across;
}

/* Bytes of scratch that such a row wants for blocks of n. */
static size_t atall_leaders_wanted(const struct atall_state *state, const struct atall_row *row,
                                   size_t n)
{
    const struct atall_leaders *hosts = &state->leaders;
    const struct atall_body *body = &atall_bodies[row->body];
    const size_t block = atall_host_block(hosts, &row->values, n);
    return atall_host_scratch(hosts, &row->values, n) +
           (body->scratch ? body->scratch((size_t)hosts->hosts, block, &row->values) : 0);
}

static int atall_run(struct atall_state *state, const struct atall_row *row, const void *sendbuf,
                     int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                     MPI_Datatype recvtype, size_t block_bytes);

/* Run a row's algorithm between hosts. */
static int atall_leaders_run(const struct atall_state *state, const struct atall_row *row,
                             const struct atall_call *call)
{
    const int each = state->leaders.each, count = state->leaders.hosts, p = call->ranks;
    const int leaders = row->values.leaders < each ? row->values.leaders : each;
    const int share = atall_share(&state->leaders, leaders);
    const size_t n = call->block_bytes, part = share * n, packet = count * part;
    const size_t bytes = atall_host_block(&state->leaders, &row->values, n);
    char *out = state->scratch, *one = out + leaders * packet, *other = one + each * packet;
    struct atall_state across = *state->leaders.across;
    struct atall_row between = *row;

    ATALL_TRY(atall_hand_over(state, call, leaders, out, one));
    if (state->leaders.place < leaders) {
        size_t used = atall_host_scratch(&state->leaders, &row->values, n);
        across.scratch = state->scratch + used;
        across.scratch_bytes = state->scratch_bytes - used;
        between.values.leaders = 0;
        for (int i = 0; i < p; i++) /* from source and host to host and source */
            memcpy(other + i * part, one + (i % each * count + i / each) * part, part);
        ATALL_TRY(atall_run(&across, &between, other, (int)bytes, MPI_BYTE, one, (int)bytes,
                            MPI_BYTE, bytes));
        for (int i = 0; i < p * share; i++) /* from source and target to target and source */
            memcpy(other + (i % share * p + i / share) * n, one + i * n, n);
    }
    return atall_hand_out(state, call, leaders, other, out);
}

/* Bytes of scratch that a row wants for blocks of n. */
static size_t atall_wanted(const struct atall_state *state, const struct atall_row *row, size_t n)
{
    const struct atall_body *body = &atall_bodies[row->body];
    if (atall_leaders_wrap(state, &row->values))
        return atall_leaders_wanted(state, row, n);
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
    if (atall_leaders_wrap(state, &row->values))
        return false;
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

/* Have what a row's algorithm keeps set up, at its first call; false on all ranks where one lacks
 * memory for it. */
static int atall_awake(struct atall_state *state, const struct atall_row *row, bool *awake)
{
    const struct atall_body *body = &atall_bodies[row->body];
    struct atall_state *server = state;
    if (atall_leaders_wrap(state, &row->values))
        server = atall_leaders_inner(state);
    *awake = true;
    if (!body->awake)
        return MPI_SUCCESS;
    ATALL_TRY(body->awake(server, state->comm));
    *awake = *awake && (body->awake != atall_set_up_schedule || server->schedule.made);
    return MPI_SUCCESS;
}

/* Run one row's algorithm on the user's arguments. */
static int atall_run(struct atall_state *state, const struct atall_row *row, const void *sendbuf,
                     int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                     MPI_Datatype recvtype, size_t block_bytes)
{
    struct atall_type send, recv;
    bool awake;
    ATALL_TRY(atall_awake(state, row, &awake));
    if (!awake)
        return PMPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                             state->comm);
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
        .schedule = &state->schedule,
        .values = row->values,
    };
    if (atall_leaders_wrap(state, &row->values))
        return atall_leaders_run(state, row, &call);
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
enum { ATALL_FILE_MARK = 454027789 };

/* The same for people: atall-info finds it in every program and library with this file in it. */
enum { ATALL_MARK = 10 };
/* clang-format off */
static const char atall_info[][85] = {
    "@(#)atall tuned with MPICH 4.0.2, 8 ranks on 4 host(s); fingerprint 226fca38656496c6",
    "@(#)atall table for 8 ranks:",
    "@(#)atall   to 181 bytes: native",
    "@(#)atall   to 3000 bytes: bruck(radix=2,leaders=1)",
    "@(#)atall   beyond: phased(sync=sender,segment=0,depth=1)",
    "@(#)atall table for 8 ranks:",
    "@(#)atall   to 512 bytes: native",
    "@(#)atall   beyond: ring(sync=light)",
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
    if (row->values.leaders > 0 && !state->leaders.made)
        return false;
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
    int requests = 2 * (state->ranks > ATALL_MOST_PARTS ? state->ranks : ATALL_MOST_PARTS);
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

/* Whether all ranks have something. */
static int atall_all_have(MPI_Comm comm, bool mine, bool *all)
{
    int have = mine;
    ATALL_TRY(PMPI_Allreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, comm));
    *all = have;
    return MPI_SUCCESS;
}

/* FNV-1a of the beginning of a host's name, in lower case. */
static uint64_t atall_hash_name(const char *name, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c)) * 0x100000001b3u;
    }
    return hash;
}

/* The hash of the name of the host that this rank is on, and of that without its domain. */
static int atall_hash_host(uint64_t *whole, uint64_t *part)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    ATALL_TRY(PMPI_Get_processor_name(name, &length));
    *whole = atall_hash_name(name, strlen(name));
    *part = atall_hash_name(name, strcspn(name, "."));
    return MPI_SUCCESS;
}

/* ---- the cluster's tree, and who is where ---------------------------------------------------- */

/* The tree for which this file was made. Hosts are known by a hash of their names, without
 * domains unless two are the same then. */
/* clang-format off */
static const struct atall_node atall_nodes[] = {
    { -1, 1000 },
    { 0, 2000 },
    { 0, 2000 },
    { 1, 1000 },
    { 1, 1000 },
    { 2, 1000 },
    { 2, 1000 },
};

/* The host of each node; 0: a switch. */
static const uint64_t atall_host_hashes[] = {
    0,
    0,
    0,
    UINT64_C(0x08b37b07b558d4c0),
    UINT64_C(0x08b37e07b558d9d9),
    UINT64_C(0x08b37d07b558d826),
    UINT64_C(0x08b38007b558dd3f),
};
/* clang-format on */

enum { ATALL_NODES = sizeof atall_nodes / sizeof atall_nodes[0] };

/* The node of each rank; false if one is on a host that the tree does not have. All ranks learn
 * the same. */
static int atall_find_homes(MPI_Comm comm, int ranks, int *home, bool *all_known)
{
    int node = 0;
    uint64_t whole, part;
    ATALL_TRY(atall_hash_host(&whole, &part));
    for (int i = 0; i < ATALL_NODES; i++)
        if (atall_host_hashes[i] == whole || atall_host_hashes[i] == part)
            node = i;
    ATALL_TRY(PMPI_Allgather(&node, 1, MPI_INT, home, 1, MPI_INT, comm));
    *all_known = true;
    for (int r = 0; r < ranks; r++)
        *all_known = *all_known && home[r] > 0;
    return MPI_SUCCESS;
}

static int atall_set_up_tree(struct atall_state *state)
{
    struct atall_tree *tree = &state->tree;
    tree->home = (int *)malloc((size_t)state->ranks * sizeof *tree->home);
    ATALL_TRY(atall_all_have(state->comm, tree->home != NULL, &tree->made));
    if (tree->made)
        ATALL_TRY(atall_find_homes(state->comm, state->ranks, tree->home, &tree->made));
    return MPI_SUCCESS;
}

static void atall_release_tree(struct atall_tree *tree)
{
    free(tree->home);
}

/* ---- contention-free phases -------------------------------------------------------------- */

/*
 * The planner: plain C without MPI. All ranks run it on the same data and get the same plan, so it
 * counts in integers.
 *
 * Switches and hosts form a tree of full-duplex cables. Two messages contend when their paths
 * share a cable in the same direction. A cable with m of N ranks below it must carry m (N - m)
 * blocks each way, so nothing is faster than the largest such load over its cable's speed. Where
 * all cables that carry any are equally fast this plan is not slower (Faraj and Yuan 4.2,
 * reference 5): seen from an end of a busiest cable, the root, the messages between each two of
 * its branches fill phases in a row such that a branch sends one and receives one at a time; a
 * message within a branch fits beside them if it leaves from the rank that receives and goes to
 * the rank that sends.
 *
 * So far the paper. But acknowledgements and tokens queue behind what their host itself sends, so
 * a host that sends and receives at a time does both more slowly. Hosts below a busy cable are
 * idle most of the time: whatever crosses no busiest cable is moved, if that can be, to a phase
 * in which both of its hosts are idle, and then has them for itself.
 */
struct atall_layout {
    const struct atall_node *node; /* the tree */
    int nodes;
    const int *home; /* the node of each rank */
    int ranks;
};

struct atall_plan {
    int ranks, phases;
    int *phase;     /* of the message [from * ranks + to]; -1 from a rank to itself */
    bool *alone;    /* whether its hosts neither send nor receive anything else in its phase */
    int *capacity;  /* of each node: messages that its cable carries at a time, each way */
    uint64_t ticks; /* what all phases take, of a cable of speed 1 the ATALL_TICKSth of a block */
    uint64_t bound; /* what they must take */
};

enum { ATALL_TICKS = 1 << 30 };

/* What so many blocks take on a cable. */
static uint64_t atall_ticks(uint64_t blocks, int speed)
{
    return blocks * ATALL_TICKS / (unsigned)speed;
}

/* The tree as seen from the root: each of its cables leads to a branch. */
struct atall_branches {
    int count;
    int *size;   /* ranks of each branch, largest first */
    int *first;  /* where its members begin */
    int *member; /* ranks, branch after branch */
};

/* Ranks at and below each node. */
static void atall_count_below(const struct atall_layout *at, int *below)
{
    memset(below, 0, (size_t)at->nodes * sizeof *below);
    for (int r = 0; r < at->ranks; r++)
        below[at->home[r]]++;
    for (int i = at->nodes - 1; i > 0; i--)
        below[at->node[i].parent] += below[i];
}

/* A node none of whose branches has more than half of the ranks, and among those one with the
 * largest branch: an end of a busiest cable. */
static int atall_find_root(const struct atall_layout *at, const int *below, int *largest)
{
    const struct atall_node *node = at->node;
    int root = 0, nodes = at->nodes, ranks = at->ranks;
    for (int i = 0; i < nodes; i++)
        largest[i] = ranks - below[i] > 1 ? ranks - below[i] : 1;
    for (int i = 1; i < nodes; i++)
        if (below[i] > largest[node[i].parent])
            largest[node[i].parent] = below[i];
    for (int i = 0, best = 0; i < nodes; i++)
        if (2 * largest[i] <= ranks && largest[i] > best) {
            best = largest[i];
            root = i;
        }
    return root;
}

/* Number the branches by size and list their members. `key` has room for nodes, `order` for
 * nodes + ranks + 1 numbers. A branch's key is the node below the root in it, or `nodes` for what
 * lies above the root, or nodes + 1 + r for a rank r at the root itself. */
static void atall_find_branches(const struct atall_layout *layout, int root, int *key, int *order,
                                struct atall_branches *branches)
{
    const struct atall_node *node = layout->node;
    const int *home = layout->home;
    int nodes = layout->nodes, ranks = layout->ranks, keys = nodes + 1 + ranks, at = 0;
    for (int i = 0; i < nodes; i++) /* parents first */
        key[i] = i == root || i == 0 ? nodes : node[i].parent == root ? i : key[node[i].parent];
    memset(order, 0, (size_t)keys * sizeof *order);
    for (int r = 0; r < ranks; r++)
        order[home[r] == root ? nodes + 1 + r : key[home[r]]]++;
    branches->count = 0;
    for (int size = ranks; size > 0; size--)
        for (int k = 0; k < keys; k++)
            if (order[k] == size) {
                branches->size[branches->count] = size;
                branches->first[branches->count++] = at;
                order[k] = -at - 1; /* where its next member goes */
                at += size;
            }
    for (int r = 0; r < ranks; r++) {
        int k = home[r] == root ? nodes + 1 + r : key[home[r]];
        branches->member[-order[k] - 1] = r;
        order[k]--;
    }
}

/* The messages from branch i to branch j: consecutive phases; who sends to whom in each. The
 * largest branch never sends from the rank that receives in the same phase. */
static void atall_place_between(struct atall_plan *plan, const struct atall_branches *branches,
                                int i, int j)
{
    const int *size = branches->size;
    const int *senders = branches->member + branches->first[i];
    const int *receivers = branches->member + branches->first[j];
    int between = 0, start, n0 = size[0], ni = size[i], nj = size[j];
    for (int k = (i < j ? i : j) + 1; k < (i < j ? j : i); k++)
        between += size[k];
    start = i < j ? ni * between : plan->phases - nj * (between + ni);
    for (int x = 0; x < ni * nj; x++) {
        int q = start + x, s, r;
        if (i == 0)
            s = q % n0, r = (x % n0 + x / n0) % nj;
        else if (j == 0)
            s = x / n0, r = (q + 1 + q / n0 % (n0 > 1 ? n0 - 1 : 1)) % n0;
        else if (i > j)
            s = x / nj, r = x % nj;
        else
            s = x % ni, r = x / ni % nj;
        plan->phase[senders[s] * plan->ranks + receivers[r]] = q;
    }
}

/* Phases of one branch by who receives from outside and who sends there in them; 0 is nobody,
 * k + 1 is member k. Those of key = receiver * (n + 1) + sender begin at first[key]. */
struct atall_slots {
    int n;
    int *first, *used, *phase;
};

static int atall_take_slot(struct atall_slots *slots, int receiver, int sender)
{
    int key = receiver * (slots->n + 1) + sender;
    if (slots->first[key] + slots->used[key] == slots->first[key + 1])
        return -1;
    return slots->phase[slots->first[key] + slots->used[key]++];
}

/* Sort the phases into slots. `busy` has room for two numbers a phase. */
static void atall_find_slots(const struct atall_plan *plan, const int *member, int n, int *busy,
                             struct atall_slots *slots)
{
    int *receiver = busy, *sender = busy + plan->phases, keys = (n + 1) * (n + 1);
    memset(busy, 0, 2 * (size_t)plan->phases * sizeof *busy);
    for (int k = 0; k < n; k++)
        for (int peer = 0; peer < plan->ranks; peer++) {
            int out = plan->phase[member[k] * plan->ranks + peer];
            int in = plan->phase[peer * plan->ranks + member[k]];
            if (out >= 0)
                sender[out] = k + 1;
            if (in >= 0)
                receiver[in] = k + 1;
        }
    slots->n = n;
    memset(slots->first, 0, ((size_t)keys + 1) * sizeof *slots->first);
    memset(slots->used, 0, (size_t)keys * sizeof *slots->used);
    for (int q = 0; q < plan->phases; q++)
        slots->first[receiver[q] * (n + 1) + sender[q] + 1]++;
    for (int key = 0; key < keys; key++)
        slots->first[key + 1] += slots->first[key];
    for (int q = 0; q < plan->phases; q++) {
        int key = receiver[q] * (n + 1) + sender[q];
        slots->phase[slots->first[key] + slots->used[key]++] = q;
    }
    memset(slots->used, 0, (size_t)keys * sizeof *slots->used);
}

/* Place the messages within a branch: where its sender receives and its receiver sends, else
 * where one of them does and nobody else, else where nobody does. False if one has no place. */
static bool atall_place_within(struct atall_plan *plan, const int *member, int n,
                               struct atall_slots *slots)
{
    for (int round = 0; round < 2; round++)
        for (int from = 0; from < n; from++)
            for (int to = 0; to < n; to++) {
                int *phase = &plan->phase[member[from] * plan->ranks + member[to]];
                if (from == to || *phase >= 0)
                    continue;
                *phase = atall_take_slot(slots, from + 1, to + 1);
                if (round == 0)
                    continue;
                if (*phase < 0)
                    *phase = atall_take_slot(slots, from + 1, 0);
                if (*phase < 0)
                    *phase = atall_take_slot(slots, 0, to + 1);
                if (*phase < 0)
                    *phase = atall_take_slot(slots, 0, 0);
                if (*phase < 0)
                    return false;
            }
    return true;
}

/* The cables from one rank's node to another's, each as 2 * node upwards, 2 * node + 1 downwards;
 * how many. `cable` has room for twice the number of nodes. */
static int atall_path(const struct atall_node *node, int from, int to, int *cable)
{
    int count = 0;
    while (from != to) /* a parent has a smaller number than its children */
        if (from > to) {
            cable[count++] = 2 * from;
            from = node[from].parent;
        } else {
            cable[count++] = 2 * to + 1;
            to = node[to].parent;
        }
    return count;
}

/* Fill all phases from the branches; false without memory. */
static bool atall_fill_phases(struct atall_plan *plan, const struct atall_branches *branches)
{
    int largest = branches->size[0];
    size_t keys = (size_t)(largest + 1) * (size_t)(largest + 1);
    bool placed = true;

    plan->phases = largest * (plan->ranks - largest);
    int *room = (int *)malloc((2 * keys + 1 + 3 * (size_t)plan->phases) * sizeof *room);
    if (!room)
        return false;
    struct atall_slots slots = { 0, room, room + keys + 1, room + 2 * keys + 1 };
    for (int i = 0; i < branches->count; i++)
        for (int j = 0; j < branches->count; j++)
            if (i != j)
                atall_place_between(plan, branches, i, j);
    for (int i = 0; placed && i < branches->count; i++) {
        const int *member = branches->member + branches->first[i];
        atall_find_slots(plan, member, branches->size[i], slots.phase + plan->phases, &slots);
        placed = atall_place_within(plan, member, branches->size[i], &slots);
    }
    free(room);
    return placed;
}

/* All phases, as if cables were equally fast; false without memory. */
static bool atall_plan_branches(const struct atall_layout *at, struct atall_plan *plan)
{
    size_t nodes = (size_t)at->nodes, ranks = (size_t)at->ranks;
    int *room = (int *)malloc((3 * nodes + 4 * ranks + 1) * sizeof *room);
    if (!room)
        return false;
    int *below = room, *key = below + nodes, *order = key + nodes;
    struct atall_branches branches;
    branches.size = order + nodes + ranks + 1;
    branches.first = branches.size + ranks;
    branches.member = branches.first + ranks;
    atall_count_below(at, below);
    int root = atall_find_root(at, below, key);
    atall_find_branches(at, root, key, order, &branches);
    bool planned = atall_fill_phases(plan, &branches);
    free(room);
    return planned;
}

/* The cables that a message has for itself in its phase: its path and, if it is alone, the other
 * directions at its hosts. */
static int atall_held(const struct atall_layout *at, const struct atall_plan *plan, int message,
                      int *cable)
{
    int from = at->home[message / plan->ranks], to = at->home[message % plan->ranks];
    int count = atall_path(at->node, from, to, cable);
    if (plan->alone[message]) {
        cable[count++] = 2 * from + 1;
        cable[count++] = 2 * to;
    }
    return count;
}

/* Which cables are held in each phase of a window, a bit for each. */
struct atall_held_cables {
    size_t row; /* bytes of a phase */
    int first, phases;
    unsigned char *bits;
};

static bool atall_is_free(const struct atall_held_cables *held, int phase, const int *cable,
                          int count)
{
    const unsigned char *bits = held->bits + (size_t)(phase - held->first) * held->row;
    for (int k = 0; k < count; k++)
        if (bits[cable[k] / 8] >> cable[k] % 8 & 1)
            return false;
    return true;
}

static void atall_flip(struct atall_held_cables *held, int phase, const int *cable, int count)
{
    if (phase < held->first || phase >= held->first + held->phases)
        return;
    unsigned char *bits = held->bits + (size_t)(phase - held->first) * held->row;
    for (int k = 0; k < count; k++)
        bits[cable[k] / 8] ^= (unsigned char)(1u << cable[k] % 8);
}

/* Blocks that the cable of a node must carry each way. */
static int atall_cable_load(const int *below, int ranks, int node)
{
    return below[node] * (ranks - below[node]);
}

/* Move the window to where a phase is its first, with all that is held there. */
static void atall_move_window(const struct atall_layout *at, const struct atall_plan *plan,
                              int first, int *cable, struct atall_held_cables *held)
{
    int pairs = plan->ranks * plan->ranks;
    held->first = first;
    memset(held->bits, 0, (size_t)held->phases * held->row);
    for (int m = 0; m < pairs; m++)
        if (plan->phase[m] >= first && plan->phase[m] < first + held->phases)
            atall_flip(held, plan->phase[m], cable, atall_held(at, plan, m, cable));
}

enum {
    ATALL_MOST_TRIES = 128,      /* phases that are looked at for one message */
    ATALL_MOST_WINDOW = 1 << 22, /* bytes */
};

/* Move messages that cross no busiest cable to phases in which they are alone; what finds none
 * stays where it was. False without memory. */
static bool atall_spread(const struct atall_layout *at, const int *below, struct atall_plan *plan)
{
    int pairs = plan->ranks * plan->ranks, next = 0, most = 0;
    struct atall_held_cables held = { (2 * (size_t)at->nodes + 7) / 8, 0, plan->phases, NULL };
    size_t window = ATALL_MOST_WINDOW / held.row;
    if (window < 2 * ATALL_MOST_TRIES)
        window = 2 * ATALL_MOST_TRIES;
    if ((size_t)plan->phases > window)
        held.phases = (int)window;
    int *cable = (int *)malloc((2 * (size_t)at->nodes + 2) * sizeof *cable);
    held.bits = (unsigned char *)malloc((size_t)held.phases * held.row + 1);
    bool ready = cable && held.bits;

    for (int i = 1; i < at->nodes; i++)
        most = atall_cable_load(below, plan->ranks, i) > most
                   ? atall_cable_load(below, plan->ranks, i)
                   : most;
    if (ready)
        atall_move_window(at, plan, 0, cable, &held);
    for (int m = 0; ready && m < pairs; m++) {
        int count = atall_held(at, plan, m, cable), found = -1;
        bool movable = count > 0;
        for (int k = 0; k < count; k++)
            movable = movable && atall_cable_load(below, plan->ranks, cable[k] / 2) < most;
        if (!movable)
            continue;
        if (held.phases < plan->phases &&
            (next == plan->phases || next > held.first + held.phases - ATALL_MOST_TRIES)) {
            next %= plan->phases;
            atall_move_window(at, plan, next, cable, &held);
        }
        atall_flip(&held, plan->phase[m], cable, count);
        plan->alone[m] = true;
        count = atall_held(at, plan, m, cable);
        for (int i = 0; i < ATALL_MOST_TRIES && i < plan->phases && found < 0; i++) {
            int phase = held.phases < plan->phases ? next + i : (next + i) % plan->phases;
            if (phase >= held.first && phase < held.first + held.phases && phase < plan->phases &&
                atall_is_free(&held, phase, cable, count))
                found = phase;
        }
        plan->alone[m] = found >= 0;
        if (found >= 0) {
            plan->phase[m] = found;
            next = found + 1;
        }
        atall_flip(&held, plan->phase[m], cable, atall_held(at, plan, m, cable));
    }
    free(held.bits);
    free(cable);
    return ready;
}

/* As if cables were equally fast: the best there is where they are. */
static bool atall_plan_equal(const struct atall_layout *at, const int *below,
                             struct atall_plan *plan)
{
    return atall_plan_branches(at, plan) && atall_spread(at, below, plan);
}

/* ---- ports of hosts and switches, where cables differ in speed ----------------------------- */

/*
 * Where cables differ in speed. Phases are planned as if all hosts hung off one switch: in each a
 * host's cable carries one message each way. Then phases exchange messages, two at a time, until
 * none asks a cable between switches for more than it carries. The messages of two phases form
 * chains, in which neighbours share a sender or a receiver; a chain changes sides as a whole, and
 * each host's cable still carries one in either phase.
 *
 * A message is as fast as the slower of its hosts' cables. A host with several ranks that is much
 * faster than others may have several ports here: it is a port that carries one at a time.
 */

/* What all messages together ask of the cable of a node: the sum of their speeds, up and down, and
 * the largest of their speeds. */
struct atall_demand {
    uint64_t sum[2];
    int unit;
};

/* Ports, and the phases that they need. */
struct atall_ports {
    int count, phases;
    int *of; /* each rank's */
};

static int atall_message_speed(const struct atall_layout *at, int message)
{
    int from = at->node[at->home[message / at->ranks]].speed;
    int to = at->node[at->home[message % at->ranks]].speed;
    return from < to ? from : to;
}

/* The path of a message; 0 between ranks on one host, and from a rank to itself. */
static int atall_message_path(const struct atall_layout *at, int message, int *cable)
{
    return atall_path(at->node, at->home[message / at->ranks], at->home[message % at->ranks],
                      cable);
}

static void atall_find_demand(const struct atall_layout *at, int *cable,
                              struct atall_demand *demand)
{
    memset(demand, 0, (size_t)at->nodes * sizeof *demand);
    for (int m = 0; m < at->ranks * at->ranks; m++) {
        int speed = atall_message_speed(at, m), count = atall_message_path(at, m, cable);
        for (int k = 0; k < count; k++) {
            struct atall_demand *one = &demand[cable[k] / 2];
            one->sum[cable[k] % 2] += (unsigned)speed;
            one->unit = speed > one->unit ? speed : one->unit;
        }
    }
}

/* Messages of its largest speed that a cable must carry each way. */
static uint64_t atall_units(const struct atall_demand *one)
{
    uint64_t sum = one->sum[0] > one->sum[1] ? one->sum[0] : one->sum[1];
    return one->unit ? (sum + (unsigned)one->unit - 1) / (unsigned)one->unit : 0;
}

/* Give ranks their ports: those that have the same node in ports->of share as many[node]. `room`
 * has three numbers a node. */
static void atall_give_ports(const struct atall_layout *at, const int *many, int *room,
                             struct atall_ports *ports)
{
    int *size = room, *first = size + at->nodes, *given = first + at->nodes, largest = 0;
    memset(room, 0, 3 * (size_t)at->nodes * sizeof *room);
    for (int r = 0; r < at->ranks; r++)
        size[ports->of[r]]++;
    ports->count = 0;
    for (int i = 0; i < at->nodes; i++) {
        int shared = many[i] < 1 ? 1 : many[i] > size[i] ? size[i] : many[i];
        if (size[i] == 0)
            continue;
        size[i] = (size[i] + shared - 1) / shared;
        largest = size[i] > largest ? size[i] : largest;
        first[i] = ports->count;
        ports->count += shared;
    }
    for (int r = 0; r < at->ranks; r++) {
        int node = ports->of[r];
        ports->of[r] = first[node] + given[node]++ / size[node];
    }
    ports->phases = largest * (at->ranks - largest);
    if (ports->phases < 1)
        ports->phases = 1;
}

/* The ports of hosts, each of which is worth a speed. */
static void atall_find_ports(const struct atall_layout *at, int speed, int *room,
                             struct atall_ports *ports)
{
    for (int i = 0; i < at->nodes; i++)
        room[i] = at->node[i].speed / speed;
    memcpy(ports->of, at->home, (size_t)at->ranks * sizeof *ports->of);
    atall_give_ports(at, room, room + at->nodes, ports);
}

/* The same, but ranks below a cable that carries fewer messages at a time in so many phases than
 * they have ports share as many as it carries. */
static void atall_share_ports(const struct atall_layout *at, const struct atall_demand *demand,
                              int phases, int *room, struct atall_ports *ports)
{
    int *carries = room, *below = room + at->nodes;
    memset(below, 0, (size_t)at->nodes * sizeof *below);
    for (int r = 0; r < at->ranks; r++)
        for (int i = at->home[r]; i > 0; i = at->node[i].parent)
            below[i]++;
    for (int i = 0; i < at->nodes; i++)
        carries[i] = (int)((atall_units(&demand[i]) + (unsigned)phases - 1) / (unsigned)phases);
    for (int r = 0; r < at->ranks; r++) {
        ports->of[r] = at->home[r];
        for (int i = at->home[r]; i > 0; i = at->node[i].parent)
            if (carries[i] < below[i] && 2 * below[i] <= at->ranks)
                ports->of[r] = i;
    }
    atall_give_ports(at, carries, room + at->nodes, ports);
}

enum { ATALL_PHASE = 1 << 10 }; /* what a phase takes in which no cable is asked for too much */

/* What so many phases take at the best: the longer the more a cable is asked for. */
static uint64_t atall_estimate(const struct atall_layout *at, const struct atall_demand *demand,
                               uint64_t phases)
{
    uint64_t longest = 0;
    for (int i = 1; i < at->nodes; i++) {
        uint64_t units = atall_units(&demand[i]), speed = (unsigned)at->node[i].speed;
        uint64_t less = units / phases * (unsigned)demand[i].unit, many = units % phases;
        uint64_t more = less + (unsigned)demand[i].unit;
        uint64_t takes = many * (more > speed ? more : speed);
        takes += (phases - many) * (less > speed ? less : speed);
        takes = takes * ATALL_PHASE / speed;
        longest = takes > longest ? takes : longest;
    }
    return longest;
}

enum { ATALL_SLACK = 64 }; /* one more phase for so many, since none is quite full */

/* How many phases to make, at least so many: as many as cost nothing, so that as few messages as
 * can be share a cable. Puts into *takes what they take. */
static uint64_t atall_choose_phases(const struct atall_layout *at,
                                    const struct atall_demand *demand, uint64_t least,
                                    uint64_t *takes)
{
    uint64_t chosen = least;
    *takes = atall_estimate(at, demand, least);
    for (int round = 0; round < 2; round++) {
        uint64_t shortest = *takes;
        for (int i = 1; i < at->nodes; i++)
            for (int more = 0; more < 2; more++) {
                int fits = demand[i].unit ? at->node[i].speed / demand[i].unit + more : 0;
                uint64_t phases = atall_units(&demand[i]);
                if (fits)
                    phases = (phases + (unsigned)fits - 1) / (unsigned)fits;
                phases += phases / ATALL_SLACK;
                if (phases <= (round ? chosen : least))
                    continue;
                uint64_t need = atall_estimate(at, demand, phases);
                if (round ? need <= shortest + shortest / 50 : need < *takes) {
                    chosen = round || need < *takes ? phases : chosen;
                    *takes = need < *takes ? need : *takes;
                }
            }
    }
    return chosen;
}

/* Phases, and what cables are asked for in them. */
struct atall_balance {
    const struct atall_layout *at;
    const struct atall_ports *ports;
    struct atall_plan *plan;
    int watched;      /* directions of cables that can be asked for too much */
    int *number;      /* of each direction of a cable among them, or -1 */
    int *most, *load; /* what each carries, a sum of speeds; what it is asked: [phase * watched] */
    int *head, *next; /* the messages of a phase */
    size_t budget;    /* messages that may still be looked at */
    int *sent[2], *received[2]; /* of two phases, by port: its message or -1 */
    bool *seen;                 /* of a message: its chain is known */
    int *chain;                 /* messages */
    int *net;                   /* by how much they ask more in the first phase, of each cable */
    int *touched, *is_touched;  /* which cables they ask */
    int *above;                 /* of each node: the next one above whose cable is watched, or 0 */
    int *lowest;                /* of each rank: its node if that is one, else the next above */
    int *asked;                 /* watched cables of a message */
};

/* The watched cables of a message: as atall_path, along these alone. */
static int atall_asks(const struct atall_balance *balance, int message)
{
    int from = balance->lowest[message / balance->at->ranks], count = 0;
    int to = balance->lowest[message % balance->at->ranks];
    while (from != to)
        if (from > to) {
            balance->asked[count++] = balance->number[2 * from];
            from = balance->above[from];
        } else {
            balance->asked[count++] = balance->number[2 * to + 1];
            to = balance->above[to];
        }
    return count;
}

static void atall_add_message(struct atall_balance *balance, int message, int phase, int sign)
{
    int *load = balance->load + (size_t)phase * (unsigned)balance->watched;
    int count = atall_asks(balance, message);
    int speed = count ? sign * atall_message_speed(balance->at, message) : 0;
    for (int k = 0; k < count; k++)
        load[balance->asked[k]] += speed;
}

/* How far beyond what it carries a cable is asked, squared. */
static int64_t atall_excess(int asked, int most)
{
    int64_t beyond = asked > most ? asked - most : 0;
    return beyond * beyond;
}

/* Follow the chain of a message of one of two phases; how many it has. */
static int atall_follow(struct atall_balance *balance, int message)
{
    const int *port = balance->ports->of, ranks = balance->at->ranks;
    int count = 0;
    balance->seen[message] = true;
    balance->chain[count++] = message;
    for (int i = 0; i < count; i++) {
        int from = port[balance->chain[i] / ranks], to = port[balance->chain[i] % ranks];
        for (int side = 0; side < 2; side++)
            for (int end = 0; end < 2; end++) {
                int other = end ? balance->received[side][to] : balance->sent[side][from];
                if (other >= 0 && !balance->seen[other]) {
                    balance->seen[other] = true;
                    balance->chain[count++] = other;
                }
            }
    }
    return count;
}

/* Whether two phases are asked for less too much if a chain changes sides; sums up what for. */
static bool atall_is_better(struct atall_balance *balance, const int *phase, int count)
{
    int *load[2], touches = 0;
    int64_t gain = 0;
    for (int side = 0; side < 2; side++)
        load[side] = balance->load + (size_t)phase[side] * (unsigned)balance->watched;
    for (int i = 0; i < count; i++) {
        int message = balance->chain[i], length = atall_asks(balance, message);
        int speed = length ? atall_message_speed(balance->at, message) : 0;
        int sign = balance->plan->phase[message] == phase[0] ? speed : -speed;
        for (int k = 0; k < length; k++) {
            int w = balance->asked[k];
            if (!balance->is_touched[w])
                balance->touched[touches++] = w;
            balance->is_touched[w] = 1;
            balance->net[w] += sign;
        }
    }
    for (int i = 0; i < touches; i++) {
        int w = balance->touched[i], net = balance->net[w], most = balance->most[w];
        balance->net[w] = balance->is_touched[w] = 0;
        gain += atall_excess(load[0][w], most) + atall_excess(load[1][w], most) -
                atall_excess(load[0][w] - net, most) - atall_excess(load[1][w] + net, most);
    }
    return gain > 0;
}

/* Note the messages of a phase by port, or forget them. */
static void atall_note_phase(struct atall_balance *balance, int phase, int side, bool forget)
{
    const int *port = balance->ports->of, ranks = balance->at->ranks;
    for (int m = balance->head[phase]; m >= 0; m = balance->next[m]) {
        balance->sent[side][port[m / ranks]] = forget ? -1 : m;
        balance->received[side][port[m % ranks]] = forget ? -1 : m;
        balance->seen[m] = false;
    }
}

/* Let chains of two phases change sides wherever that helps. */
static void atall_trade(struct atall_balance *balance, int first, int second)
{
    const int phase[2] = { first, second };
    int all = -1, m, following;
    for (int side = 0; side < 2; side++)
        atall_note_phase(balance, phase[side], side, false);
    for (int side = 0; side < 2; side++)
        for (m = balance->head[phase[side]]; m >= 0; m = balance->next[m]) {
            int count = balance->seen[m] ? 0 : atall_follow(balance, m);
            balance->budget -= (size_t)count < balance->budget ? (size_t)count : balance->budget;
            if (count == 0 || !atall_is_better(balance, phase, count))
                continue;
            for (int i = 0; i < count; i++) {
                int *mine = &balance->plan->phase[balance->chain[i]];
                atall_add_message(balance, balance->chain[i], *mine, -1);
                *mine = *mine == first ? second : first;
                atall_add_message(balance, balance->chain[i], *mine, 1);
            }
        }
    for (int side = 0; side < 2; side++) {
        atall_note_phase(balance, phase[side], side, true);
        for (m = balance->head[phase[side]]; m >= 0; m = following) { /* collect them all */
            following = balance->next[m];
            balance->next[m] = all;
            all = m;
        }
        balance->head[phase[side]] = -1;
    }
    for (m = all; m >= 0; m = following) {
        following = balance->next[m];
        balance->next[m] = balance->head[balance->plan->phase[m]];
        balance->head[balance->plan->phase[m]] = m;
    }
}

enum { ATALL_MOST_ROUNDS = 8, ATALL_MOST_PARTNERS = 4, ATALL_MOST_LOOKS = 12, ATALL_LOADS = 64 };

/* Sort phases by what a cable is asked for, the most first; whether it is ever too much. */
static bool atall_sort_phases(const struct atall_balance *balance, int number, int *order)
{
    int phases = balance->plan->phases, first[ATALL_LOADS + 1] = { 0 }, most = 0;
    const int *load = balance->load + number;
    for (int q = 0; q < phases; q++)
        most = load[(size_t)q * (unsigned)balance->watched] > most
                   ? load[(size_t)q * (unsigned)balance->watched]
                   : most;
    if (most <= balance->most[number])
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int q = 0; q < phases; q++) {
            int64_t asked = load[(size_t)q * (unsigned)balance->watched];
            int key = (int)((most - asked) * (ATALL_LOADS - 1) / most);
            if (pass == 0)
                first[key + 1]++;
            else
                order[first[key]++] = q;
        }
        for (int key = 0; pass == 0 && key < ATALL_LOADS; key++)
            first[key + 1] += first[key];
    }
    return true;
}

static int atall_asked(const struct atall_balance *balance, int phase, int number)
{
    return balance->load[(size_t)phase * (unsigned)balance->watched + (unsigned)number];
}

/* Exchange between the phases in which a cable is asked for too much and those in which it is for
 * least: with one after the other, since the chains of some two are too long to help. */
static void atall_relieve(struct atall_balance *balance, int number, int round, const int *order)
{
    int phases = balance->plan->phases, heavy = 0, light = phases;
    while (heavy < phases && atall_asked(balance, order[heavy], number) > balance->most[number])
        heavy++;
    while (light > 0 && atall_asked(balance, order[light - 1], number) < balance->most[number])
        light--;
    for (int i = 0; i < heavy && light < phases; i++)
        for (int tried = 0; tried < ATALL_MOST_PARTNERS; tried++) {
            int partner = (i + tried + round * ATALL_MOST_PARTNERS) % (phases - light);
            if (atall_asked(balance, order[i], number) <= balance->most[number] ||
                balance->budget == 0)
                break;
            atall_trade(balance, order[i], order[phases - 1 - partner]);
        }
}

/* Relieve one cable after the other, again and again. */
static void atall_balance_phases(struct atall_balance *balance, int *order)
{
    bool any = true;
    for (int round = 0; any && round < ATALL_MOST_ROUNDS; round++) {
        any = false;
        for (int w = 0; w < balance->watched; w++)
            if (atall_sort_phases(balance, w, order)) {
                atall_relieve(balance, w, round, order);
                any = true;
            }
    }
}

/* Distribute the phases of ports over more of them, and note who is in each. */
static void atall_distribute(struct atall_balance *balance, int made)
{
    const struct atall_layout *at = balance->at;
    struct atall_plan *plan = balance->plan;
    int pairs = plan->ranks * plan->ranks, times = plan->phases / made;
    for (int q = 0; q < plan->phases; q++)
        balance->head[q] = -1;
    int *turn = balance->chain; /* of each phase */
    memset(turn, 0, (size_t)made * sizeof *turn);
    for (int m = 0; m < pairs; m++) {
        if (plan->phase[m] < 0 || at->home[m / at->ranks] == at->home[m % at->ranks])
            continue;
        if (times > 1 && atall_asks(balance, m))
            plan->phase[m] += turn[plan->phase[m]]++ % times * made;
        balance->next[m] = balance->head[plan->phase[m]];
        balance->head[plan->phase[m]] = m;
        atall_add_message(balance, m, plan->phase[m], 1);
    }
}

/* Number the directions of cables that can be asked for too much, and say what each carries. */
static void atall_watch(struct atall_balance *balance, const struct atall_demand *demand)
{
    const struct atall_layout *at = balance->at;
    uint64_t phases = (unsigned)balance->plan->phases;
    int *ports = balance->asked; /* of each node: a port below, or as many as ranks if several */
    balance->watched = 0;
    for (int i = 0; i < 2 * at->nodes; i++)
        balance->number[i] = -1;
    for (int i = 0; i < at->nodes; i++)
        ports[i] = -1;
    for (int r = 0; r < at->ranks; r++)
        for (int i = at->home[r]; i > 0; i = at->node[i].parent)
            ports[i] = ports[i] < 0 || ports[i] == balance->ports->of[r] ? balance->ports->of[r]
                                                                         : at->ranks;
    for (int i = 1; i < at->nodes; i++) {
        if (ports[i] < at->ranks || demand[i].unit == 0)
            continue;
        uint64_t fits = (unsigned)(at->node[i].speed / demand[i].unit);
        uint64_t need = (atall_units(&demand[i]) + phases - 1) / phases;
        fits = fits < need ? need : fits;
        for (int way = 0; way < 2; way++) {
            balance->most[balance->watched] = (int)fits * demand[i].unit;
            balance->number[2 * i + way] = balance->watched++;
        }
    }
    balance->above[0] = 0;
    for (int i = 1; i < at->nodes; i++) {
        int above = at->node[i].parent; /* which is done already */
        balance->above[i] = balance->number[2 * above] >= 0 ? above : balance->above[above];
    }
    for (int r = 0; r < at->ranks; r++) {
        int home = at->home[r];
        balance->lowest[r] = balance->number[2 * home] >= 0 ? home : balance->above[home];
    }
}

/* Balance phases that were made for ports; false without memory. */
static bool atall_balance(const struct atall_layout *at, const struct atall_ports *ports,
                          const struct atall_demand *demand, int phases, struct atall_plan *plan)
{
    size_t nodes = (size_t)at->nodes, pairs = (size_t)at->ranks * (size_t)at->ranks;
    int made = plan->phases;
    bool ready = false;
    struct atall_balance balance = { .at = at, .ports = ports, .plan = plan };
    balance.budget = ATALL_MOST_LOOKS * pairs + 1000000;
    plan->phases = phases > made ? phases : made;
    size_t most = pairs > (size_t)plan->phases ? pairs : (size_t)plan->phases;
    size_t want = 13 * nodes + (size_t)at->ranks + 4 * (size_t)ports->count +
                  2 * (size_t)plan->phases + pairs + most;
    int *room = (int *)malloc(want * sizeof *room);
    bool *seen = (bool *)calloc(pairs, sizeof *seen);
    if (room && seen) {
        balance.seen = seen;
        balance.number = room;
        balance.most = balance.number + 2 * nodes;
        balance.net = balance.most + 2 * nodes;
        balance.touched = balance.net + 2 * nodes;
        balance.is_touched = balance.touched + 2 * nodes;
        balance.asked = balance.is_touched + 2 * nodes;
        balance.above = balance.asked + 2 * nodes;
        balance.lowest = balance.above + nodes;
        memset(balance.net, 0, 6 * nodes * sizeof *balance.net);
        balance.head = balance.lowest + at->ranks;
        int *order = balance.head + plan->phases;
        balance.next = order + plan->phases;
        balance.chain = balance.next + pairs;
        for (int side = 0; side < 2; side++) {
            balance.sent[side] = balance.chain + most + 2 * side * ports->count;
            balance.received[side] = balance.sent[side] + ports->count;
            for (int i = 0; i < 2 * ports->count; i++)
                balance.sent[side][i] = -1;
        }
        atall_watch(&balance, demand);
        balance.load = (int *)calloc((size_t)plan->phases * (unsigned)balance.watched + 1,
                                     sizeof *balance.load);
        ready = balance.load != NULL;
        if (ready) {
            atall_distribute(&balance, made);
            atall_balance_phases(&balance, order);
        }
    }
    free(balance.load);
    free(room);
    free(seen);
    return ready;
}

/* Plan for the ports of hosts, as if all of them hung off one switch. */
static bool atall_plan_ports(const struct atall_layout *at, const struct atall_ports *ports,
                             struct atall_plan *plan)
{
    size_t count = (size_t)ports->count + 1;
    struct atall_node *node = (struct atall_node *)malloc(count * sizeof *node);
    int *home = (int *)malloc((size_t)at->ranks * sizeof *home);
    bool planned = node && home;
    if (planned) {
        for (size_t i = 0; i < count; i++)
            node[i] = (struct atall_node){ i ? 0 : -1, 1 };
        for (int r = 0; r < at->ranks; r++)
            home[r] = 1 + ports->of[r];
        const struct atall_layout star = { node, (int)count, home, at->ranks };
        planned = atall_plan_branches(&star, plan);
    }
    free(node);
    free(home);
    return planned;
}

/* The fastest of the ranks' hosts, and the slowest. */
static void atall_find_speeds(const struct atall_layout *at, int *fastest, int *slowest)
{
    *fastest = *slowest = at->node[at->home[0]].speed;
    for (int r = 1; r < at->ranks; r++) {
        int speed = at->node[at->home[r]].speed;
        *fastest = speed > *fastest ? speed : *fastest;
        *slowest = speed < *slowest ? speed : *slowest;
    }
}

/* All phases, for the speeds of cables, from ports of hosts or `shared` below switches; false
 * without memory. */
static bool atall_plan_unequal(const struct atall_layout *at, bool shared, struct atall_plan *plan)
{
    size_t nodes = (size_t)at->nodes;
    struct atall_demand *demand = (struct atall_demand *)malloc(nodes * sizeof *demand);
    int *room = (int *)malloc((4 * nodes + (size_t)at->ranks) * sizeof *room);
    struct atall_ports ports = { 0, 0, NULL };
    bool planned = demand && room;
    if (planned) {
        int fastest, slowest;
        uint64_t takes, takes_more, phases, more;
        ports.of = room + 4 * nodes;
        atall_find_speeds(at, &fastest, &slowest);
        atall_find_demand(at, room, demand);
        atall_find_ports(at, fastest, room, &ports);
        phases = atall_choose_phases(at, demand, (unsigned)ports.phases, &takes);
        if (slowest < fastest) { /* does it pay to have several ports? */
            atall_find_ports(at, slowest, room, &ports);
            more = atall_choose_phases(at, demand, (unsigned)ports.phases, &takes_more);
            if (takes_more + takes_more / 50 < takes)
                phases = more;
            else
                atall_find_ports(at, fastest, room, &ports);
        }
        if (shared) {
            atall_share_ports(at, demand, (int)phases, room, &ports);
            phases = 0;
        }
        planned = atall_plan_ports(at, &ports, plan) &&
                  atall_balance(at, &ports, demand, (int)phases, plan);
    }
    free(demand);
    free(room);
    return planned;
}

static bool atall_plan_by_hosts(const struct atall_layout *at, const int *below,
                                struct atall_plan *plan)
{
    (void)below;
    return atall_plan_unequal(at, false, plan);
}

static bool atall_plan_by_switches(const struct atall_layout *at, const int *below,
                                   struct atall_plan *plan)
{
    (void)below;
    return atall_plan_unequal(at, true, plan);
}

/* Messages by phase; `sequence` has room for all pairs, `start` for phases + 1 numbers. */
static int atall_sort_messages(const struct atall_plan *plan, int *sequence, int *start)
{
    int pairs = plan->ranks * plan->ranks, count = 0;
    memset(start, 0, ((size_t)plan->phases + 1) * sizeof *start);
    for (int m = 0; m < pairs; m++)
        if (plan->phase[m] >= 0)
            start[plan->phase[m] + 1]++, count++;
    for (int q = 0; q < plan->phases; q++)
        start[q + 1] += start[q];
    for (int m = 0; m < pairs; m++)
        if (plan->phase[m] >= 0)
            sequence[start[plan->phase[m]]++] = m;
    return count;
}

/* Leave out phases without messages, and find what cables carry at a time, what all phases take
 * and what they must take; false without memory. */
static bool atall_weigh_plan(const struct atall_layout *at, const int *below,
                             struct atall_plan *plan)
{
    size_t pairs = (size_t)plan->ranks * (size_t)plan->ranks, nodes = (size_t)at->nodes;
    int *room = (int *)malloc((pairs + (size_t)plan->phases + 1 + 4 * nodes + 2) * sizeof *room);
    if (!room)
        return false;
    int *sequence = room, *start = sequence + pairs, *cable = start + plan->phases + 1;
    int *carried = cable + 2 * nodes + 2, used = 0;
    int count = atall_sort_messages(plan, sequence, start);
    memset(carried, 0, 2 * nodes * sizeof *carried);
    for (int i = 0, end; i < count; i = end, used++) {
        uint64_t longest = 0;
        int phase = plan->phase[sequence[i]];
        for (end = i; end < count && plan->phase[sequence[end]] == phase; end++) {
            int length = atall_held(at, plan, sequence[end], cable);
            for (int k = 0; k < length; k++) {
                int node = cable[k] / 2, here = ++carried[cable[k]];
                uint64_t takes = atall_ticks((unsigned)here, at->node[node].speed);
                longest = takes > longest ? takes : longest;
                if (here > plan->capacity[node])
                    plan->capacity[node] = here;
            }
        }
        plan->ticks += longest;
        for (int j = i; j < end; j++) {
            int length = atall_held(at, plan, sequence[j], cable);
            for (int k = 0; k < length; k++)
                carried[cable[k]] = 0;
        }
        for (int j = i; j < end; j++)
            plan->phase[sequence[j]] = used;
    }
    plan->phases = used;
    for (int i = 1; i < at->nodes; i++) {
        uint64_t takes =
            atall_ticks((unsigned)atall_cable_load(below, at->ranks, i), at->node[i].speed);
        plan->bound = takes > plan->bound ? takes : plan->bound;
    }
    free(room);
    return true;
}

static void atall_free_plan(struct atall_plan *plan)
{
    free(plan->phase);
    free(plan->alone);
    free(plan->capacity);
    plan->phase = plan->capacity = NULL;
    plan->alone = NULL;
}

/* A plan without phases; false without memory, when there is nothing to free. */
static bool atall_begin_plan(const struct atall_layout *at, struct atall_plan *plan)
{
    size_t pairs = (size_t)at->ranks * (size_t)at->ranks;
    memset(plan, 0, sizeof *plan);
    plan->ranks = at->ranks;
    plan->phase = (int *)malloc(pairs * sizeof *plan->phase);
    plan->alone = (bool *)calloc(pairs, sizeof *plan->alone);
    plan->capacity = (int *)calloc((size_t)at->nodes, sizeof *plan->capacity);
    if (!plan->phase || !plan->alone || !plan->capacity) {
        atall_free_plan(plan);
        return false;
    }
    memset(plan->phase, -1, pairs * sizeof *plan->phase);
    return true;
}

/* Ways to plan, the first of which may do; false without memory. */
static bool (*const atall_ways[])(const struct atall_layout *at, const int *below,
                                  struct atall_plan *plan) = {
    /* exact where cables are equally fast */
    atall_plan_equal,
    /* a port for each host */
    atall_plan_by_hosts,
    /* a few ports for all hosts below a switch */
    atall_plan_by_switches,
};

enum { ATALL_WAYS = sizeof atall_ways / sizeof atall_ways[0] };

static bool atall_plan_one_way(const struct atall_layout *at, const int *below, int way,
                               struct atall_plan *plan)
{
    if (!atall_begin_plan(at, plan))
        return false;
    if (atall_ways[way](at, below, plan) && atall_weigh_plan(at, below, plan))
        return true;
    atall_free_plan(plan);
    return false;
}

/* Plan the phases of an all-to-all, the best way of all until one is close to the bound. Free with
 * atall_free_plan; false without memory, when there is nothing to free. */
static bool atall_make_plan(const struct atall_layout *at, struct atall_plan *plan)
{
    int *below = (int *)malloc((size_t)at->nodes * sizeof *below);
    if (!below)
        return false;
    atall_count_below(at, below);
    bool planned =
        at->ranks < 2 ? atall_begin_plan(at, plan) : atall_plan_one_way(at, below, 0, plan);
    for (int way = 1; planned && way < ATALL_WAYS; way++) {
        struct atall_plan other, worse = *plan;
        if (plan->ticks <= plan->bound + plan->bound / 50)
            break;
        planned = atall_plan_one_way(at, below, way, &other);
        if (planned && other.ticks < plan->ticks)
            *plan = other;
        else if (planned)
            worse = other;
        atall_free_plan(&worse);
    }
    free(below);
    return planned;
}

/*
 * Which message must have arrived before which may leave, so that phases cannot run into each
 * other: on every cable each message after the one before it, less what the others imply. It is
 * worked out for the ranks that are there: leaving ranks out of a reduced set loses order.
 *
 * At a depth of 1 as many messages are under way on a cable as it carries in a phase, at a depth
 * of 2 twice as many, so that one may begin while the one before it ends. A cable that carries c
 * is c * depth lanes with one message at a time, which its messages take in turn.
 */
struct atall_order {
    int count;
    int *before, *after; /* messages, each from * ranks + to */
};

/* The messages of each cable, by phase. */
struct atall_queues {
    const struct atall_layout *at;
    const struct atall_plan *plan;
    int longest;  /* cables that a message holds at the most */
    int *first;   /* of each direction of a cable: its first message; and behind the last */
    int *message; /* where that says */
};

/* Line up all messages; false without memory. Free `first`. */
static bool atall_make_queues(const struct atall_layout *at, const struct atall_plan *plan,
                              struct atall_queues *queues)
{
    size_t pairs = (size_t)plan->ranks * (size_t)plan->ranks, cables = 2 * (size_t)at->nodes;
    int *sequence = (int *)malloc((pairs + (size_t)plan->phases + 1 + cables + 2) * sizeof(int));
    int *end = (int *)calloc(cables + 1, sizeof *end), deepest = 0;
    queues->at = at;
    queues->plan = plan;
    queues->first = NULL;
    for (int i = 1, depth; i < at->nodes; i++) {
        depth = 0;
        for (int above = i; above > 0; above = at->node[above].parent)
            depth++;
        deepest = depth > deepest ? depth : deepest;
    }
    queues->longest = 2 * deepest + 2;
    if (sequence && end) {
        int *start = sequence + pairs, *cable = start + plan->phases + 1;
        int count = atall_sort_messages(plan, sequence, start);
        for (int i = 0; i < count; i++)
            for (int k = atall_held(at, plan, sequence[i], cable); k > 0; k--)
                end[cable[k - 1] + 1]++;
        for (size_t i = 0; i < cables; i++)
            end[i + 1] += end[i];
        queues->first = (int *)malloc((cables + 1 + (size_t)end[cables]) * sizeof *queues->first);
        if (queues->first) {
            memcpy(queues->first, end, (cables + 1) * sizeof *end);
            queues->message = queues->first + cables + 1;
            for (int i = 0; i < count; i++)
                for (int k = atall_held(at, plan, sequence[i], cable); k > 0; k--)
                    queues->message[end[cable[k - 1]]++] = sequence[i];
        }
    }
    free(sequence);
    free(end);
    return queues->first != NULL;
}

/* The message so many places behind one on a cable, or before it; -1: none. */
static int atall_in_queue(const struct atall_queues *queues, int message, int cable, int places)
{
    const int *phase = queues->plan->phase;
    int low = queues->first[cable], high = queues->first[cable + 1];
    while (low < high) { /* the first of its phase */
        int middle = low + (high - low) / 2;
        if (phase[queues->message[middle]] < phase[message])
            low = middle + 1;
        else
            high = middle;
    }
    while (queues->message[low] != message)
        low++;
    low += places;
    bool is_there = low >= queues->first[cable] && low < queues->first[cable + 1];
    return is_there ? queues->message[low] : -1;
}

/* The messages that follow a message on its lanes, or with `sign` -1 those before it; how many.
 * `found` and `cable` have room for the longest path each. */
static int atall_neighbours(const struct atall_queues *queues, int message, int depth, int sign,
                            int *cable, int *found)
{
    int count = 0, length = atall_held(queues->at, queues->plan, message, cable);
    for (int k = 0; k < length; k++) {
        int lanes = queues->plan->capacity[cable[k] / 2] * depth, known = 0;
        int other = atall_in_queue(queues, message, cable[k], sign * lanes);
        while (known < count && found[known] != other)
            known++;
        if (other >= 0 && known == count)
            found[count++] = other;
    }
    return count;
}

enum { ATALL_MOST_LOOKED_AT = 192 }; /* messages; an order that is implied by more is kept */

/* Whether one of the messages before another implies that one of them has arrived. */
static bool atall_is_implied(const struct atall_queues *queues, const int *before, int count, int k,
                             int depth, int *cable, int *found)
{
    int look[ATALL_MOST_LOOKED_AT], looks = 0;
    const int *phase = queues->plan->phase;
    for (int j = 0; j < count && looks < ATALL_MOST_LOOKED_AT; j++)
        if (phase[before[j]] > phase[before[k]])
            look[looks++] = before[j];
    for (int i = 0; i < looks; i++) {
        int reached = atall_neighbours(queues, look[i], depth, -1, cable, found);
        for (int j = 0; j < reached; j++) {
            int known = 0;
            if (found[j] == before[k])
                return true;
            while (known < looks && look[known] != found[j])
                known++;
            if (known == looks && looks < ATALL_MOST_LOOKED_AT &&
                phase[found[j]] > phase[before[k]])
                look[looks++] = found[j];
        }
    }
    return false;
}

static int atall_compare_keys(const void *one, const void *other)
{
    const uint64_t *a = (const uint64_t *)one, *b = (const uint64_t *)other;
    return *a < *b ? -1 : *a > *b;
}

/* Where a message stands among all, by phase. */
static uint64_t atall_message_key(const struct atall_plan *plan, int message)
{
    return (uint64_t)(unsigned)plan->phase[message] << 32 | (unsigned)message;
}

/* The messages that wait for one that a rank sends or receives, and those that it sends, by phase;
 * of rank -1 all. Free them; NULL without memory. */
static uint64_t *atall_find_waiting(const struct atall_queues *queues, int depth, int rank,
                                    int *cable, int *found, size_t *count)
{
    size_t p = (size_t)queues->at->ranks, most = rank < 0 ? p * p : 2 * p * (size_t)queues->longest;
    uint64_t *key = (uint64_t *)malloc((most + p) * sizeof *key);
    size_t filled = 0, kept = 0;
    if (!key)
        return NULL;
    for (size_t i = 0; i < (rank < 0 ? p * p : 2 * p); i++) {
        int m =
            rank < 0 ? (int)i : (int)(i < p ? (size_t)rank * p + i : (i - p) * p + (size_t)rank);
        if (m / (int)p == m % (int)p)
            continue;
        if (rank < 0 || i < p)
            key[filled++] = atall_message_key(queues->plan, m);
        if (rank < 0)
            continue;
        for (int k = atall_neighbours(queues, m, depth, 1, cable, found); k > 0; k--)
            key[filled++] = atall_message_key(queues->plan, found[k - 1]);
    }
    qsort(key, filled, sizeof *key, atall_compare_keys);
    for (size_t i = 0; i < filled; i++)
        if (i == 0 || key[i] != key[kept - 1])
            key[kept++] = key[i];
    *count = kept;
    return key;
}

/* Work out the order of the messages that a rank must know of: what its own wait for, and what
 * waits for those that it sends or receives; of rank -1 all. Free `before`; false without memory.
 */
static bool atall_make_order(const struct atall_queues *queues, int depth, int rank,
                             struct atall_order *order)
{
    int p = queues->at->ranks, *room;
    size_t longest = (size_t)queues->longest, count;
    uint64_t *key;
    order->count = 0;
    order->before = order->after = NULL;
    room = (int *)malloc(3 * longest * sizeof *room);
    if (!room)
        return false;
    int *cable = room, *found = room + longest, *before = found + longest;
    key = atall_find_waiting(queues, depth, rank, cable, found, &count);
    if (key)
        order->before = (int *)malloc((2 * count * longest + 1) * sizeof *order->before);
    if (order->before)
        order->after = order->before + count * longest;
    for (size_t i = 0; order->before && i < count; i++) {
        int m = (int)(uint32_t)key[i];
        int many = atall_neighbours(queues, m, depth, -1, cable, before);
        for (int k = 0; k < many; k++) {
            bool mine = rank < 0 || m / p == rank || before[k] / p == rank || before[k] % p == rank;
            if (!mine || atall_is_implied(queues, before, many, k, depth, cable, found))
                continue;
            order->before[order->count] = before[k];
            order->after[order->count++] = m;
        }
    }
    free(key);
    free(room);
    return order->before != NULL;
}

/* ---- one rank's part of the plan --------------------------------------------------------- */

/* What all ranks work out alike, before each finds its part. */
struct atall_draft {
    struct atall_layout at;
    struct atall_plan plan;
    struct atall_queues queues;
};

static void atall_free_draft(struct atall_draft *draft)
{
    atall_free_plan(&draft->plan);
    free(draft->queues.first);
}

/* False without memory, when there is nothing to free. */
static bool atall_make_draft(const struct atall_layout *at, struct atall_draft *draft)
{
    draft->at = *at;
    if (!atall_make_plan(at, &draft->plan))
        return false;
    if (atall_make_queues(&draft->at, &draft->plan, &draft->queues))
        return true;
    atall_free_plan(&draft->plan);
    return false;
}

/* The number of a message among those of its sender, by phase. */
static int atall_place_of(const struct atall_plan *plan, int message)
{
    int sender = message / plan->ranks, first = sender * plan->ranks, place = 0;
    for (int m = first; m < first + plan->ranks; m++)
        place +=
            plan->phase[m] >= 0 && atall_message_key(plan, m) < atall_message_key(plan, message);
    return place;
}

/* The number among its receives, or sends, of the message that sends a token; -1: not this rank's.
 * `got` numbers the rank's receives by sender. */
static int atall_event(const struct atall_draft *draft, int by, int rank, const int *got,
                       int before)
{
    int p = draft->plan.ranks;
    if (by == ATALL_BY_RECEIVER)
        return before % p == rank ? got[before / p] : -1;
    return before / p == rank ? atall_place_of(&draft->plan, before) : -1;
}

/* Note the tokens of one rank; arrays are large enough and zero. */
static void atall_note_tokens(const struct atall_draft *draft, const struct atall_order *order,
                              int by, int rank, const int *got, struct atall_tokens *tokens)
{
    int p = draft->plan.ranks, *release = tokens->release;
    for (int i = 0; i < order->count; i++) { /* how many tokens each event sends */
        int event = atall_event(draft, by, rank, got, order->before[i]);
        if (event >= 0)
            release[event + 1]++;
    }
    for (int i = 0; i < p - 1; i++)
        release[i + 1] += release[i];
    for (int i = order->count - 1; i >= 0; i--) {
        int before = order->before[i], after = order->after[i];
        int event = atall_event(draft, by, rank, got, before);
        int place = event >= 0 || after / p == rank ? atall_place_of(&draft->plan, after) : -1;
        if (after / p == rank) {
            tokens->waits[place]++;
            if (event < 0) {
                tokens->from[tokens->count] = by == ATALL_BY_RECEIVER ? before % p : before / p;
                tokens->allows[tokens->count++] = place;
            }
        }
        if (event >= 0) { /* filled from the back; waiting counts what is there */
            int at = release[event + 1] - 1 - tokens->waiting[event]++;
            tokens->to[at] = after / p;
            tokens->tag[at] = place;
        }
    }
}

/* Take a number of ints from room. */
static int *atall_take(int **room, size_t count)
{
    int *taken = *room;
    *room += count;
    return taken;
}

/* Note a rank's sends and receives by phase, and which number each receive has. `key` has room for
 * as many numbers as there are ranks. */
static void atall_note_messages(const struct atall_plan *plan, int rank, uint64_t *key, int *got,
                                struct atall_schedule *schedule)
{
    int p = plan->ranks;
    for (int receives = 0; receives < 2; receives++) {
        int count = 0;
        for (int peer = 0; peer < p; peer++)
            if (peer != rank)
                key[count++] =
                    atall_message_key(plan, receives ? peer * p + rank : rank * p + peer);
        qsort(key, (size_t)count, sizeof *key, atall_compare_keys);
        for (int i = 0; i < count; i++) {
            int message = (int)(uint32_t)key[i], phase = (int)(key[i] >> 32);
            (receives ? schedule->receive_phase : schedule->send_phase)[i] = phase;
            (receives ? schedule->from : schedule->to)[i] = receives ? message / p : message % p;
            if (receives)
                got[message / p] = i;
        }
    }
}

/* How many tokens of an order a rank receives, and sends in either way. */
struct atall_counts {
    size_t in, out[ATALL_BY];
};

static struct atall_counts atall_count_tokens(const struct atall_order *order, int p, int rank)
{
    struct atall_counts counts = { 0, { 0, 0 } };
    for (int i = 0; i < order->count; i++) {
        counts.in += order->after[i] / p == rank;
        counts.out[ATALL_BY_RECEIVER] += order->before[i] % p == rank;
        counts.out[ATALL_BY_SENDER] += order->before[i] / p == rank;
    }
    return counts;
}

/* One rank's part of a draft, in one piece of memory that begins at `to`, with the orders of its
 * messages at all depths. */
static bool atall_fill_schedule(const struct atall_draft *draft, const struct atall_order *order,
                                int rank, uint64_t *key, struct atall_schedule *schedule)
{
    int p = draft->plan.ranks;
    size_t peers = (size_t)p - 1, ints = 4 * peers + (size_t)p, most = 0;
    struct atall_counts counts[ATALL_MOST_DEPTH];
    for (int d = 0; d < ATALL_MOST_DEPTH; d++) {
        counts[d] = atall_count_tokens(&order[d], p, rank);
        for (int by = 0; by < ATALL_BY; by++) {
            size_t tokens = counts[d].in + counts[d].out[by];
            ints += 3 * peers + 1 + 2 * tokens;
            most = tokens > most ? tokens : most;
        }
    }
    int *room = (int *)calloc(ints, sizeof(int));
    if (!room)
        return false;
    schedule->phases = draft->plan.phases;
    schedule->ticks = draft->plan.ticks;
    schedule->bound = draft->plan.bound;
    schedule->peers = p - 1;
    schedule->requests = (int)(2 * ATALL_MOST_PARTS * peers + most);
    schedule->to = atall_take(&room, peers);
    schedule->from = atall_take(&room, peers);
    schedule->send_phase = atall_take(&room, peers);
    schedule->receive_phase = atall_take(&room, peers);
    int *got = atall_take(&room, (size_t)p);
    atall_note_messages(&draft->plan, rank, key, got, schedule);
    for (int d = 0; d < ATALL_MOST_DEPTH; d++)
        for (int by = 0; by < ATALL_BY; by++) {
            struct atall_tokens *tokens = &schedule->tokens[d][by];
            tokens->count = 0;
            tokens->waits = atall_take(&room, peers);
            tokens->waiting = atall_take(&room, peers);
            tokens->release = atall_take(&room, peers + 1);
            tokens->from = atall_take(&room, counts[d].in);
            tokens->allows = atall_take(&room, counts[d].in);
            tokens->to = atall_take(&room, counts[d].out[by]);
            tokens->tag = atall_take(&room, counts[d].out[by]);
            atall_note_tokens(draft, &order[d], by, rank, got, tokens);
        }
    return true;
}

static bool atall_make_schedule(const struct atall_draft *draft, int rank,
                                struct atall_schedule *schedule)
{
    struct atall_order order[ATALL_MOST_DEPTH] = { { 0, NULL, NULL } };
    uint64_t *key = (uint64_t *)malloc((size_t)draft->plan.ranks * sizeof *key);
    bool made = key != NULL;
    for (int d = 0; made && d < ATALL_MOST_DEPTH; d++)
        made = atall_make_order(&draft->queues, d + 1, rank, &order[d]);
    made = made && atall_fill_schedule(draft, order, rank, key, schedule);
    for (int d = 0; d < ATALL_MOST_DEPTH; d++)
        free(order[d].before);
    free(key);
    return made;
}

/* Plan for all ranks where they are, and keep this rank's part; false without memory. */
static bool atall_plan_schedule(const struct atall_state *state, struct atall_schedule *schedule)
{
    const struct atall_layout at = { atall_nodes, ATALL_NODES, state->tree.home, state->ranks };
    struct atall_draft draft;
    if (!atall_make_draft(&at, &draft))
        return false;
    bool made = atall_make_schedule(&draft, state->rank, schedule);
    atall_free_draft(&draft);
    if (made)
        schedule->request = /* not of 0 bytes, which may be NULL */
            (MPI_Request *)malloc(((size_t)schedule->requests + 1) * sizeof(MPI_Request));
    return made && schedule->request;
}

/* At its first use. All ranks of `all` have it, or none. */
static int atall_set_up_schedule(struct atall_state *state, MPI_Comm all)
{
    struct atall_schedule *schedule = &state->schedule;
    if (!state->tree.made || schedule->tried)
        return MPI_SUCCESS;
    schedule->tried = true;
    bool made = atall_plan_schedule(state, schedule);
    return atall_all_have(all, made, &schedule->made);
}

static void atall_release_schedule(struct atall_schedule *schedule)
{
    free(schedule->to); /* the whole of it */
    free(schedule->request);
}

/* ---- which ranks share a host ---------------------------------------------------------------- */

static void atall_number_hosts(const uint64_t *name, int ranks, struct atall_hosts *hosts)
{
    for (int r = 0; r < ranks; r++) {
        int known = 0;
        while (name[known] != name[r])
            known++;
        hosts->of[r] = known < r ? hosts->of[known] : hosts->count++;
    }
}

static int atall_set_up_hosts(struct atall_state *state)
{
    const size_t ranks = (size_t)state->ranks;
    struct atall_hosts *hosts = &state->hosts;
    uint64_t own, part, *name = (uint64_t *)malloc(ranks * sizeof *name);
    hosts->of = (int *)malloc(ranks * sizeof *hosts->of);
    ATALL_TRY(atall_all_have(state->comm, name && hosts->of, &hosts->made));
    if (hosts->made) {
        ATALL_TRY(atall_hash_host(&own, &part));
        ATALL_TRY(PMPI_Allgather(&own, 1, MPI_UINT64_T, name, 1, MPI_UINT64_T, state->comm));
        atall_number_hosts(name, state->ranks, hosts);
    }
    free(name);
    return MPI_SUCCESS;
}

static void atall_release_hosts(struct atall_hosts *hosts)
{
    free(hosts->of);
}

/* ---- several ranks on a host --------------------------------------------------------------- */

static void atall_empty_state(struct atall_state *state);

static void atall_release_leaders(struct atall_leaders *hosts)
{
    free(hosts->member);
    if (hosts->across)
        atall_empty_state(hosts->across);
    free(hosts->across);
}

/* Fill in who is where; false if hosts differ in their numbers of ranks, or have one each. */
static bool atall_place_ranks(struct atall_state *state)
{
    const int *host = state->hosts.of, count = state->hosts.count;
    const int ranks = state->ranks, each = ranks / count;
    struct atall_leaders *hosts = &state->leaders;
    if (each < 2 || count < 2 || each * count != ranks)
        return false;
    for (int h = 0; h < count; h++)
        for (int r = 0, place = 0; r < ranks; r++) {
            if (host[r] != h)
                continue;
            if (place == each)
                return false;
            if (r == state->rank) {
                hosts->host = h;
                hosts->place = place;
            }
            hosts->member[h * each + place++] = r;
        }
    hosts->hosts = count;
    hosts->each = each;
    return true;
}

/* Find which ranks share a host, and make the communicator of those at the same place on theirs.
 * Without memory somewhere, or that communicator, all ranks do as if each had a host of its own. */
static int atall_set_up_leaders(struct atall_state *state)
{
    struct atall_leaders *hosts = &state->leaders;
    bool usable;

    if (!state->hosts.made)
        return MPI_SUCCESS;
    hosts->member = (int *)malloc((size_t)state->ranks * sizeof *hosts->member);
    hosts->across = (struct atall_state *)malloc(sizeof *hosts->across);
    if (hosts->across)
        *hosts->across = (struct atall_state){ .comm = MPI_COMM_NULL };
    ATALL_TRY(atall_all_have(state->comm, hosts->member && hosts->across, &usable));
    if (!usable || !atall_place_ranks(state))
        return MPI_SUCCESS;
    struct atall_state *across = hosts->across;
    usable = PMPI_Comm_split(state->comm, hosts->place, hosts->host, &across->comm) == MPI_SUCCESS;
    if (!usable)
        across->comm = MPI_COMM_NULL;
    ATALL_TRY(atall_all_have(state->comm, usable, &usable));
    if (!usable) {
        hosts->each = 0;
        return MPI_SUCCESS;
    }
    ATALL_TRY(PMPI_Comm_set_errhandler(across->comm, MPI_ERRORS_RETURN));
    across->rank = hosts->host;
    across->ranks = hosts->hosts;
    ATALL_TRY(atall_set_up_tree(across));
    usable = atall_obtain_requests(across);
    usable = usable && across->tree.made == state->tree.made;
    ATALL_TRY(atall_all_have(state->comm, usable, &usable));
    hosts->made = usable;
    if (!usable)
        hosts->each = 0;
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
    atall_release_tree(&state->tree);
    atall_release_schedule(&state->schedule);
    atall_release_hosts(&state->hosts);
    atall_release_leaders(&state->leaders);
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
    ATALL_TRY(atall_set_up_tree(state));
    ATALL_TRY(atall_set_up_hosts(state));
    ATALL_TRY(atall_set_up_leaders(state));
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

/* Warn if another library is in use than the file was tuned with: it serves all the same. */
static void atall_compare_library(void)
{
    /* clang-format off */
    static const char *const tuned[] = { "MPICH", "4.0.2" };
    /* clang-format on */
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, rank;
    PMPI_Get_library_version(text, &length);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; rank == 0 && i < sizeof tuned / sizeof tuned[0]; i++)
        if (!strstr(text, tuned[i])) {
            fprintf(stderr,
                    "ATALL: %s; this is another MPI library, which is served all the same\n",
                    atall_info[0] + ATALL_MARK);
            return;
        }
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
    if (process->verbose >= 0)
        atall_compare_library();
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
    { "depth", 1, offsetof(struct atall_values, depth), NULL },
    { "first", 1, offsetof(struct atall_values, first), NULL },
    { "hops", 0, offsetof(struct atall_values, hops), "ring,mesh," },
    { "leaders", 0, offsetof(struct atall_values, leaders), NULL },
    { "radix", 2, offsetof(struct atall_values, radix), NULL },
    { "segment", 0, offsetof(struct atall_values, segment), NULL },
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
