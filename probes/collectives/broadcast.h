/*
 * Broadcast: rank 0 of each communicator has the message, in the receive buffer.
 */
#ifndef COLLECTIVES_BROADCAST_H
#define COLLECTIVES_BROADCAST_H

#include "targets.h"

#include "oracle.h"

static const char *broadcast_judge(struct communicator *on)
{
    const size_t n = (size_t)request.size;
    unsigned char *got = (unsigned char *)malloc(n + ORACLE_CANARY), *expected;
    int right, err;
    require(got != NULL && (expected = (unsigned char *)malloc(n + ORACLE_CANARY)) != NULL,
            "no memory for the oracle");
    oracle_stream(expected, n, request.number, 0, 0);
    memset(expected + n, ORACLE_CANARY, ORACLE_CANARY);
    for (size_t i = 0; i < n; i++)
        got[i] = on->state->rank == 0 ? expected[i] : (unsigned char)~expected[i];
    memset(got + n, ORACLE_CANARY, ORACLE_CANARY);
    err = call_variant(on, NULL, (char *)got);
    right = memcmp(got, expected, n + ORACLE_CANARY) == 0;
    free(expected);
    free(got);
    return err != MPI_SUCCESS ? "it returned an error" : right ? NULL : "wrong data, or too much";
}

static size_t broadcast_bytes(void)
{
    return (size_t)request.size;
}

static const struct collective broadcast = { "broadcast/", call_variant, broadcast_judge,
                                             broadcast_bytes };

__attribute__((constructor)) static void add_broadcast(void)
{
    add_collective(&broadcast);
}

#endif
