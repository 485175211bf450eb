/*
 * Hosts that are not there, for the file under test: h0, h1, ... with so many ranks each as
 * RANKS_PER_HOST says, one if it does not. What includes this may name them otherwise, and shuffle
 * the ranks: MADE_UP_NAME, MADE_UP_PLACE(rank).
 */
#ifndef MADE_UP_HOSTS_H
#define MADE_UP_HOSTS_H

#ifndef MADE_UP_NAME
#define MADE_UP_NAME "h%d"
#endif
#ifndef MADE_UP_PLACE
#define MADE_UP_PLACE(rank) (rank)
#endif

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

static int made_up_processor_name(char *name, int *length)
{
    const char *per_host = getenv("RANKS_PER_HOST");
    int begun = 0, rank = 0;
    PMPI_Initialized(&begun); /* not by a session: there is no world then */
    if (begun)
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *length = sprintf(name, MADE_UP_NAME, MADE_UP_PLACE(rank) / (per_host ? atoi(per_host) : 1));
    return MPI_SUCCESS;
}
#define PMPI_Get_processor_name made_up_processor_name

#endif
