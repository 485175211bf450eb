/*
 * All-to-all: of variants, of a whole emitted file (GENERATED), or of the library (LIBRARY).
 */
#ifndef COLLECTIVES_ALLTOALL_H
#define COLLECTIVES_ALLTOALL_H

#include "targets.h"

#include "oracle.h"

static int call_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
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

static int alltoall_call(struct communicator *on, char *sendbuf, char *recvbuf)
{
    const int n = (int)request.size;
    return call_alltoall(sendbuf, n, MPI_BYTE, recvbuf, n, MPI_BYTE, on->comm);
}

static const char *alltoall_judge(struct communicator *on)
{
    const int n = (int)request.size;
    const struct oracle_case c = { n, n, MPI_BYTE, MPI_BYTE, on->comm, request.number };
    return oracle_judge(call_alltoall, &c);
}

static size_t alltoall_bytes(void)
{
    return (size_t)team.peers * (size_t)request.size;
}

static const struct collective alltoall = { "", alltoall_call, alltoall_judge, alltoall_bytes };

__attribute__((constructor)) static void add_alltoall(void)
{
    add_collective(&alltoall);
}

#endif
