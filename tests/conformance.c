/*
 * Every variant named on the command line, through the emitted entry, under the oracle:
 * datatypes x communicators x counts. Prints what is wrong, and "N passed, M failed" on rank 0.
 * With CONFORMANCE_FIRST=1 it ends at the first case that is wrong, or lasts CASE_SECONDS.
 */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CASE_SECONDS = 5 };

/* Ranks live on hosts h0 ... h15, shuffled, with names as long as real ones. */
#define MADE_UP_NAME "H%d.example.org"
#define MADE_UP_PLACE(rank) ((rank) * 7 % 16)
#include "made_up_hosts.h"

#include ATALL_SOURCE

#include "oracle.h"

static unsigned calls; /* counted alike on all ranks */
static int failed, passed;
static bool first_only;

struct typed {
    const char *name;
    int sendcount, recvcount;
    MPI_Datatype sendtype, recvtype;
};

enum { TYPES = 10 };

static MPI_Datatype commit(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

static void make_types(struct typed *types)
{
    MPI_Datatype vector, resized, structure, swapped;
    int lengths[2] = { 1, 2 }, order[2] = { 1, 0 };
    MPI_Aint places[2] = { 0, 8 };
    MPI_Datatype parts[2] = { MPI_INT, MPI_DOUBLE };
    MPI_Type_vector(3, 2, 5, MPI_SHORT, &vector);
    MPI_Type_create_resized(MPI_INT, -8, 24, &resized);
    MPI_Type_create_struct(2, lengths, places, parts, &structure);
    MPI_Type_create_indexed_block(2, 1, order, MPI_INT, &swapped);
    vector = commit(vector), resized = commit(resized), structure = commit(structure);
    swapped = commit(swapped);
    struct typed made[TYPES] = {
        { "byte", 1, 1, MPI_BYTE, MPI_BYTE },
        { "char x 4099", 4099, 4099, MPI_CHAR, MPI_CHAR },
        { "int x 7", 7, 7, MPI_INT, MPI_INT },
        { "double complex", 2, 2, MPI_C_DOUBLE_COMPLEX, MPI_C_DOUBLE_COMPLEX },
        { "double-int pairs, which have a hole", 3, 3, MPI_DOUBLE_INT, MPI_DOUBLE_INT },
        { "vector with holes", 2, 2, vector, vector },
        { "resized, negative lower bound", 3, 3, resized, resized },
        { "struct to the same", 2, 2, structure, structure },
        { "shorts sent as a vector, received as contiguous", 1, 6, vector, MPI_SHORT },
        { "ints sent in order, received swapped", 4, 2, MPI_INT, swapped },
    };
    memcpy(types, made, sizeof made);
}

/* The same in place: the data is moved into the receive buffer first. */
static int in_place(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                    int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    int peers;
    MPI_Comm_size(comm, &peers);
    MPI_Sendrecv(sendbuf, peers * sendcount, sendtype, 0, 0, recvbuf, peers * recvcount, recvtype,
                 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return ATALL_Alltoall(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, recvbuf, recvcount, recvtype, comm);
}

static void judge(oracle_alltoall *alltoall, const char *label, const struct typed *typed,
                  const char *where, MPI_Comm comm)
{
    struct oracle_case c = {
        typed->sendcount, typed->recvcount, typed->sendtype, typed->recvtype, comm, calls
    };
    int rank;
    alarm(first_only ? CASE_SECONDS : 0);
    const char *verdict = oracle_judge(alltoall, &c);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (verdict) {
        printf("rank %d: %s, %s, on %s: %s\n", rank, label, typed->name, where, verdict);
        failed++;
        if (first_only)
            MPI_Abort(MPI_COMM_WORLD, 1);
    } else {
        passed++;
    }
}

static void run_types(oracle_alltoall *alltoall, const char *label, const struct typed *types,
                      const char *where, MPI_Comm comm)
{
    for (int i = 0; i <= TYPES; i++) { /* the first again: scratch and tokens are used by then */
        calls++;
        if (comm != MPI_COMM_NULL)
            judge(alltoall, label, &types[i % TYPES], where, comm);
    }
}

static MPI_Comm split(int colour, int key)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, colour, key, &comm);
    return comm;
}

static void run_label(const char *label, const struct typed *types)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct {
        const char *name;
        MPI_Comm comm;
    } comms[] = {
        { "world", split(0, rank) },
        { "reversed ranks", split(0, -rank) },
        { "the lower half", split(rank < (ranks + 1) / 2 ? 0 : MPI_UNDEFINED, rank) },
        { "odd and even", split(rank % 2, rank) },
        { "itself", split(rank, 0) },
    };
    for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
        run_types(ATALL_Alltoall, label, types, comms[i].name, comms[i].comm);
        if (i == 0)
            run_types(in_place, label, types, "world, in place", comms[i].comm);
        if (comms[i].comm != MPI_COMM_NULL)
            MPI_Comm_free(&comms[i].comm);
    }
}

/* Pending wildcard receives on the user's communicator must not see our messages. */
static void run_wildcard(const struct typed *types)
{
    MPI_Comm comm = split(0, 0);
    MPI_Request request;
    char byte;
    int seen;
    MPI_Irecv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    run_types(ATALL_Alltoall, "any", types, "a communicator with a wildcard receive", comm);
    MPI_Test(&request, &seen, MPI_STATUS_IGNORE);
    if (seen) {
        printf("a wildcard receive took one of our messages\n");
        failed++;
    } else {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
}

/* Zero counts are the library's own. */
static void run_nothing(void)
{
    int data[2] = { 7, 8 };
    int code = ATALL_Alltoall(data, 0, MPI_INT, data + 1, 0, MPI_INT, MPI_COMM_WORLD);
    if (code == MPI_SUCCESS && data[0] == 7 && data[1] == 8)
        passed++;
    else
        failed++;
}

/* An inter-communicator is the library's own, too. */
static void run_between_groups(void)
{
    int rank, ranks, sent[64], received[64], right = 1;
    MPI_Comm half, between;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        return;
    half = split(rank < ranks / 2, rank);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < ranks / 2 ? ranks / 2 : 0, 9, &between);
    int others;
    MPI_Comm_remote_size(between, &others);
    for (int i = 0; i < others; i++)
        sent[i] = rank;
    ATALL_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, between);
    for (int i = 0; i < others; i++)
        right = right && received[i] == (rank < ranks / 2 ? ranks / 2 : 0) + i;
    right ? passed++ : failed++;
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    struct typed types[TYPES];
    int rank, totals[2];
    first_only = getenv("CONFORMANCE_FIRST") != NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    make_types(types);
    for (int i = 1; i < argc; i++) {
        setenv("ATALL_FORCE", argv[i], 1);
        run_label(argv[i], types);
    }
    setenv("ATALL_FORCE", "", 1);
    run_label("table", types);
    run_wildcard(types);
    run_nothing();
    run_between_groups();
    int mine[2] = { passed, failed };
    MPI_Reduce(mine, totals, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d passed, %d failed\n", totals[0], totals[1]);
    MPI_Finalize();
    return rank == 0 && totals[1] > 0;
}
