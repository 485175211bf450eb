/*
 * alltoall.h - prototypes of alltoall.c, an MPI_Alltoall tuned for one cluster.
 * SPDX-License-Identifier: 0BSD
 */
#ifndef ATALL_ALLTOALL_H
#define ATALL_ALLTOALL_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MPI_Alltoall, with its arguments, its meaning and its errors. */
int ATALL_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                   int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
