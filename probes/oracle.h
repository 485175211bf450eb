/*
 * The oracle: is what arrived what was sent, and nothing else touched?
 *
 * Every byte of data is a mix of (call, communicator, source, destination, index). Buffers hold
 * the complement where no data is, and canaries beside them. What must arrive is built by the
 * MPI library's own MPI_Unpack, and whole buffers are compared, holes of datatypes included.
 */
#ifndef ATALL_ORACLE_H
#define ATALL_ORACLE_H

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_CANARY = 64 };

typedef int oracle_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                            void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

struct oracle_case {
    int sendcount, recvcount;
    MPI_Datatype sendtype, recvtype;
    MPI_Comm comm;
    unsigned call; /* a new one for each case: stale data is told from fresh */
};

/* splitmix64's finaliser */
static inline uint64_t oracle_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The data of one block, as a stream of n bytes. */
static inline void oracle_stream(unsigned char *bytes, size_t n, unsigned call, int from, int to)
{
    uint64_t seed = oracle_mix(((uint64_t)call << 40) ^ ((uint64_t)from << 20) ^ (uint64_t)to);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(oracle_mix(seed + i / 8) >> (i % 8 * 8));
}

/* A buffer of count elements to each of p peers, with room for what lies outside an extent. */
struct oracle_buffer {
    unsigned char *memory;
    size_t bytes;
    char *start; /* what MPI gets: displacement 0 of the first element */
    MPI_Aint stride;
};

static inline int oracle_allocate(struct oracle_buffer *buffer, int count, MPI_Datatype type,
                                  int peers, int background)
{
    MPI_Aint lower, extent, true_lower, true_extent;
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
    MPI_Aint elements = (MPI_Aint)count * peers;
    MPI_Aint last = extent * (elements > 0 ? elements - 1 : 0);
    MPI_Aint low = true_lower + (last < 0 ? last : 0);
    MPI_Aint high = true_lower + true_extent + (last > 0 ? last : 0);
    buffer->bytes = (size_t)(high - low) + 2 * ORACLE_CANARY;
    buffer->memory = (unsigned char *)malloc(buffer->bytes);
    buffer->start = (char *)buffer->memory + ORACLE_CANARY - low;
    buffer->stride = extent * count;
    if (buffer->memory)
        memset(buffer->memory, background, buffer->bytes);
    return buffer->memory != NULL;
}

/* Write the stream of every pair into the buffer: sent by us, or meant for us. */
static inline void oracle_fill(const struct oracle_buffer *buffer, const struct oracle_case *c,
                               int sending, size_t n, unsigned char *stream)
{
    int rank, ranks, count = sending ? c->sendcount : c->recvcount;
    MPI_Comm_rank(c->comm, &rank);
    MPI_Comm_size(c->comm, &ranks);
    for (int peer = 0; peer < ranks; peer++) {
        int position = 0;
        oracle_stream(stream, n, c->call, sending ? rank : peer, sending ? peer : rank);
        MPI_Unpack(stream, (int)n, &position, buffer->start + peer * buffer->stride, count,
                   sending ? c->sendtype : c->recvtype, c->comm);
    }
}

/* Both hold the same data on different backgrounds: give the received one the complement of the
 * data, and the background of the expected one where no data is. */
static inline void oracle_spoil(const struct oracle_buffer *received,
                                const struct oracle_buffer *expected)
{
    for (size_t i = 0; i < received->bytes; i++) {
        unsigned char byte = expected->memory[i];
        received->memory[i] = received->memory[i] == byte ? (unsigned char)~byte : byte;
    }
}

/* Run one all-to-all and judge it on this rank: NULL, or what is wrong. */
static inline const char *oracle_judge(oracle_alltoall *alltoall, const struct oracle_case *c)
{
    struct oracle_buffer send = { 0 }, kept = { 0 }, expected = { 0 }, received = { 0 };
    const char *verdict = NULL;
    int ranks, size;
    MPI_Comm_size(c->comm, &ranks);
    MPI_Type_size(c->sendtype, &size);
    size_t n = (size_t)size * (size_t)c->sendcount;
    unsigned char *stream = (unsigned char *)malloc(n + 1);

    if (!stream || !oracle_allocate(&send, c->sendcount, c->sendtype, ranks, 0xa5) ||
        !oracle_allocate(&kept, c->sendcount, c->sendtype, ranks, 0xa5) ||
        !oracle_allocate(&expected, c->recvcount, c->recvtype, ranks, 0xa5) ||
        !oracle_allocate(&received, c->recvcount, c->recvtype, ranks, 0x5a))
        MPI_Abort(MPI_COMM_WORLD, 1);
    oracle_fill(&send, c, 1, n, stream);
    memcpy(kept.memory, send.memory, send.bytes);
    oracle_fill(&expected, c, 0, n, stream);
    oracle_fill(&received, c, 0, n, stream);
    oracle_spoil(&received, &expected);
    if (alltoall(send.start, c->sendcount, c->sendtype, received.start, c->recvcount, c->recvtype,
                 c->comm) != MPI_SUCCESS)
        verdict = "it returned an error";
    else if (memcmp(received.memory, expected.memory, expected.bytes) != 0)
        verdict = "wrong data arrived, or bytes outside the data were touched";
    else if (memcmp(send.memory, kept.memory, kept.bytes) != 0)
        verdict = "the send buffer was changed";
    free(stream);
    free(send.memory);
    free(kept.memory);
    free(expected.memory);
    free(received.memory);
    return verdict;
}

#endif
