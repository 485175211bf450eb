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

#if MPI_VERSION >= 4
/* MPI_Alltoall_c, likewise. */
int ATALL_Alltoall_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                     MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
#endif

#ifdef __cplusplus
}
#endif

#endif
