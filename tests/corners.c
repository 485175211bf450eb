/*
 * Corners of MPI in which a program may call MPI_Alltoall, one a run; each is served, or left to
 * the library, and never worse off than with the library alone:
 *
 *     sessions            a program that has sessions only
 *     outlive             a session that goes on behind MPI_Finalize
 *     deleted FIRST       a call on a communicator in its own delete callback; FIRST: after another
 *     self FIRST          the same on MPI_COMM_SELF, in MPI_Finalize
 *     ids LEFT            so many more communicators can be made; errors are fatal
 *     types               what is no type, or is not committed; errors of the world are fatal
 *     sides               ranks that send more than arrives, or less, or nothing
 *     handlers N          another thread's N errors on a communicator, while it is first used
 *     call                one call is right
 *
 * Exits with 0 and prints "fine", or says what is wrong.
 */
#define _GNU_SOURCE
#include <mpi.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "made_up_hosts.h"

#include ATALL_SOURCE
#include "exchange.h"

static void require(int holds, const char *what)
{
    if (!holds) {
        printf("%s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

/* ---- sessions ------------------------------------------------------------------------------- */

#if MPI_VERSION >= 4
static MPI_Session session;

static MPI_Comm of_session(void)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "corners", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void check_sessions(void)
{
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Comm comm = of_session();
    for (int i = 0; i < 3; i++)
        require(exchange(comm, 1 + i, 0), "wrong data on a session's communicator");
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

static void check_outlive(void)
{
    MPI_Init(NULL, NULL);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Comm comm = of_session(), other = of_session();
    require(exchange(MPI_COMM_WORLD, 2, 0) && exchange(comm, 2, 0), "wrong data");
    MPI_Finalize();
    require(exchange(comm, 2, 0) && exchange(other, 2, 0), "wrong data behind MPI_Finalize");
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
    MPI_Session_finalize(&session);
}
#else
static void check_sessions(void)
{
    printf("no sessions in this MPI\n");
}

static void check_outlive(void)
{
    check_sessions();
}
#endif

/* ---- callbacks ------------------------------------------------------------------------------ */

static int called, was_right;

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    called++;
    was_right = exchange(comm, 3, 0);
    return MPI_SUCCESS;
}

static void check_deleted(int first)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    for (int i = 0; i < 20; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (first)
            require(exchange(comm, 2, 0), "wrong data");
        MPI_Comm_set_attr(comm, key, NULL);
        if (!first && i % 2)
            require(exchange(comm, 2, 0), "wrong data");
        MPI_Comm_free(&comm);
        require(called == i + 1 && was_right, "wrong data in a delete callback");
    }
    MPI_Comm_free_keyval(&key);
}

static void check_self(int first)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &key, NULL);
    if (first)
        require(exchange(MPI_COMM_SELF, 2, 0), "wrong data");
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    require(exchange(MPI_COMM_WORLD, 2, 0), "wrong data");
}

/* ---- context ids ---------------------------------------------------------------------------- */

enum { MOST_COMMS = 1 << 16 };

static MPI_Comm taken[MOST_COMMS];

/* Make communicators until there are no more; how many. */
static int use_up(MPI_Comm comm)
{
    int count = 0;
    while (count < MOST_COMMS && MPI_Comm_dup(comm, &taken[count]) == MPI_SUCCESS)
        count++;
    require(count < MOST_COMMS, "communicators do not end here");
    return count;
}

static void free_some(int count, int left)
{
    while (count > left)
        MPI_Comm_free(&taken[--count]);
}

static void check_ids(int left)
{
    MPI_Comm quiet, comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
    MPI_Comm_set_errhandler(quiet, MPI_ERRORS_RETURN);
    require(exchange(MPI_COMM_SELF, 1, 0), "wrong data"); /* the process has what it keeps */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int before = use_up(quiet);
    free_some(before, before - left);
    for (int i = 0; i < 3; i++)
        require(exchange(comm, 1 + i, 0), "wrong data where no communicator can be had");
    free_some(before - left, 0);
    MPI_Comm_free(&comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int after = use_up(quiet);
    free_some(after, 0);
    require(before == after, "a communicator was lost");
    MPI_Comm_free(&comm);
    MPI_Comm_free(&quiet);
}

/* ---- types ---------------------------------------------------------------------------------- */

static void check_types(void)
{
    int sent[64] = { 0 }, got[64], class, right_class, rank;
    MPI_Comm comm;
    MPI_Datatype loose;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_contiguous(1, MPI_INT, &loose);
#ifdef MPICH_NUMVERSION
    const MPI_Datatype none = (MPI_Datatype)1;
#else
    const MPI_Datatype none = MPI_DATATYPE_NULL;
#endif
    const MPI_Datatype wrong[] = { none, loose };
    const char *const names[] = { "what is no type", "a type that is not committed" };
    for (int used = 0; used < 2; used++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        if (used)
            require(exchange(comm, 2, 0), "wrong data");
        for (int i = 0; i < 4; i++) {
            const MPI_Datatype send = i % 2 ? wrong[i / 2] : MPI_INT;
            const MPI_Datatype recv = i % 2 ? MPI_INT : wrong[i / 2];
            int code = PMPI_Alltoall(sent, 1, send, got, 1, recv, comm);
            if (code == MPI_SUCCESS)
                continue; /* this library does not look */
            MPI_Error_class(code, &right_class);
            code = ATALL_Alltoall(sent, 1, send, got, 1, recv, comm);
            MPI_Error_class(code, &class);
            require(class == right_class, names[i / 2]);
            require(class == MPI_ERR_TYPE, names[i / 2]);
        }
        require(exchange(comm, 2, 0), "wrong data behind errors");
        MPI_Comm_free(&comm);
    }
    MPI_Type_free(&loose);
}

/* ---- sides ---------------------------------------------------------------------------------- */

/* So many bytes that end where memory does. */
static char *at_the_end(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page;
    char *memory = (char *)mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != (char *)MAP_FAILED, "no address space");
    mprotect(memory + pages * page, page, PROT_NONE);
    return memory + pages * page - bytes;
}

/* Of rank 0 the two sides disagree; all others get their data, and from it what there is. */
static void check_sides(void)
{
    const int counts[] = { 1, 2, 50, 3000 }, others[] = { 0, 1, 3, 7, 49, 2999, 3001 };
    int rank, ranks, class;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
            const int count = counts[c], mine = rank == 0 ? others[o] : count;
            int *sent = (int *)at_the_end(sizeof(int) * (size_t)(ranks * mine));
            int *got = (int *)at_the_end(sizeof(int) * (size_t)(ranks * count));
            for (int i = 0; i < ranks * mine; i++)
                sent[i] = 1 + rank * 100000 + i;
            int code = ATALL_Alltoall(sent, mine, MPI_INT, got, count, MPI_INT, comm);
            MPI_Error_class(code, &class);
            require(mine == count ? class == MPI_SUCCESS : class == MPI_ERR_TRUNCATE,
                    "not the error that was expected");
            for (int from = rank != 0; from < ranks; from++) {
                const int theirs = from == 0 ? others[o] : count;
                for (int i = 0; i < count; i++)
                    require(got[from * count + i] ==
                                (i < theirs ? 1 + from * 100000 + rank * theirs + i : 0),
                            "wrong data");
            }
        }
    require(exchange(comm, 2, 0), "wrong data behind errors");
    MPI_Comm_free(&comm);
}

/* ---- handlers ------------------------------------------------------------------------------- */

static atomic_long raised;
static atomic_bool over;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    raised++;
}

struct errors {
    MPI_Comm comm;
    long made;
};

static void *err(void *argument)
{
    struct errors *errors = (struct errors *)argument;
    int nothing = 0;
    for (; !over; errors->made++)
        MPI_Send(&nothing, -1, MPI_INT, 0, 0, errors->comm);
    return NULL;
}

static void check_handlers(long times)
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    for (long i = 0; i < times; i++) {
        struct errors errors = { MPI_COMM_NULL, 0 };
        pthread_t thread;
        MPI_Comm_dup(MPI_COMM_WORLD, &errors.comm);
        MPI_Comm_set_errhandler(errors.comm, handler);
        raised = 0;
        over = false;
        pthread_create(&thread, NULL, err, &errors);
        require(exchange(errors.comm, 2, 0), "wrong data");
        over = true;
        pthread_join(thread, NULL);
        require(raised == errors.made, "an error was not raised");
        MPI_Comm_free(&errors.comm);
    }
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const int number = argc > 2 ? atoi(argv[2]) : 0;
    const bool has_world = strcmp(what, "sessions") != 0 && strcmp(what, "outlive") != 0;
    int provided = 0;
    if (has_world)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (strcmp(what, "sessions") == 0)
        check_sessions();
    else if (strcmp(what, "outlive") == 0)
        check_outlive();
    else if (strcmp(what, "deleted") == 0)
        check_deleted(number);
    else if (strcmp(what, "self") == 0)
        check_self(number);
    else if (strcmp(what, "ids") == 0)
        check_ids(number);
    else if (strcmp(what, "types") == 0)
        check_types();
    else if (strcmp(what, "sides") == 0)
        check_sides();
    else if (strcmp(what, "handlers") == 0)
        check_handlers(provided == MPI_THREAD_MULTIPLE ? number : 0);
    else
        require(strcmp(what, "call") == 0 && exchange(MPI_COMM_WORLD, 3, 0), "no such check here");
    if (has_world)
        MPI_Finalize();
    require(strcmp(what, "self") != 0 || (called == 1 && was_right), "wrong data in a callback");
    printf("fine\n");
    return 0;
}
