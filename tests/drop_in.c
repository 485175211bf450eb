/*
 * What a user's program may do with ATALL_Alltoall beside calling it right, one check a run:
 *
 *     errors              erroneous arguments raise what the library's own routine raises
 *     communicators N     so many live at a time
 *     cycles N            communicators made, used and freed; memory must not grow
 *     threads N           calls in each of several threads, each with its communicator
 *     heap N              calls after the first one do not allocate
 *     large N             blocks of N bytes by counts, types and addresses beyond int
 *     dispatch N          nothing is checked: what the entry costs over running the algorithm
 *
 * Exits with 0 and prints "fine", or says what is wrong.
 */
#define _GNU_SOURCE
#include <mpi.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long allocations; /* of the file under test */

static void *counted_malloc(size_t bytes)
{
    allocations++;
    return malloc(bytes);
}

static void *counted_calloc(size_t count, size_t bytes)
{
    allocations++;
    return calloc(count, bytes);
}

#include "made_up_hosts.h"

#define malloc counted_malloc
#define calloc counted_calloc
#include ATALL_SOURCE
#undef malloc
#undef calloc
#include "exchange.h"

enum { THREADS = 8 };

static int rank, ranks;

static void require(int holds, const char *what)
{
    if (!holds) {
        printf("rank %d: %s\n", rank, what);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

static int raised, raised_class;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    raised++;
    MPI_Error_class(*code, &raised_class);
}

typedef int alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);

static void check_errors(void)
{
    int sent[64] = { 0 }, got[64];
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    if (PMPI_Alltoall(sent, -1, MPI_INT, got, 1, MPI_INT, comm) == MPI_SUCCESS) {
        if (rank == 0)
            printf("this library was built without looking at arguments\n");
        return;
    }
    const struct {
        const char *what;
        void *sendbuf;
        int sendcount;
        MPI_Datatype sendtype;
        void *recvbuf;
        int recvcount;
        MPI_Datatype recvtype;
        MPI_Comm comm;
    } cases[] = {
        { "a negative count", sent, -1, MPI_INT, got, 1, MPI_INT, comm },
        { "a negative count to receive", sent, 1, MPI_INT, got, -1, MPI_INT, comm },
        { "no type", sent, 1, MPI_DATATYPE_NULL, got, 1, MPI_INT, comm },
        { "no type to receive", sent, 1, MPI_INT, got, 1, MPI_DATATYPE_NULL, comm },
        { "no communicator", sent, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_NULL },
        { "no buffer", NULL, 1, MPI_INT, got, 1, MPI_INT, comm },
        { "no buffer to receive", sent, 1, MPI_INT, NULL, 1, MPI_INT, comm },
        { "the same buffer", sent, 1, MPI_INT, sent, 1, MPI_INT, comm },
        { "in place to receive", sent, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm },
        { "in place with a negative count", MPI_IN_PLACE, 0, MPI_INT, got, -1, MPI_INT, comm },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        alltoall *const routines[] = { PMPI_Alltoall, ATALL_Alltoall };
        int codes[2], classes[2], counts[2];
        for (int ours = 0; ours < 2; ours++) {
            raised = raised_class = 0;
            codes[ours] = routines[ours](cases[i].sendbuf, cases[i].sendcount, cases[i].sendtype,
                                         cases[i].recvbuf, cases[i].recvcount, cases[i].recvtype,
                                         cases[i].comm);
            MPI_Error_class(codes[ours], &classes[ours]);
            counts[ours] = raised;
        }
        if (classes[0] != classes[1] || counts[0] != counts[1]) {
            printf("%s: class %d raised %d times, the library's: %d, %d times\n", cases[i].what,
                   classes[1], counts[1], classes[0], counts[0]);
            require(0, "another error than the library's");
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
    MPI_Errhandler_free(&handler);
}

/* ---- communicators -------------------------------------------------------------------------- */

static void check_communicators(long count)
{
    MPI_Comm *comms = (MPI_Comm *)malloc((size_t)count * sizeof *comms);
    for (long i = 0; i < count; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        require(exchange(comms[i], 3, (int)i), "wrong data");
    }
    for (long i = 0; i < count; i++)
        require(exchange(comms[i], 2, (int)i), "wrong data the second time");
    for (long i = 0; i < count; i++)
        MPI_Comm_free(&comms[i]);
    free(comms);
}

/* Bytes in memory. */
static long resident(void)
{
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &all, &pages) != 2)
            pages = 0;
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

static void check_cycles(long count)
{
    long before = 0, growth;
    for (long i = 0; i < count; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        require(exchange(comm, 1, (int)i), "wrong data");
        MPI_Comm_free(&comm);
        if (i == count / 10)
            before = resident();
    }
    growth = resident() - before;
    if (growth > 1 << 20)
        printf("rank %d grew by %ld bytes\n", rank, growth);
    require(growth <= 1 << 20, "memory grows");
}

/* ---- threads -------------------------------------------------------------------------------- */

struct job {
    pthread_t thread;
    MPI_Comm comm;
    int number;
    long calls;
    int right;
};

static void *run_job(void *argument)
{
    struct job *job = (struct job *)argument;
    job->right = 1;
    for (long i = 0; i < job->calls; i++)
        job->right = exchange(job->comm, 1 + (int)(i % 300), job->number) && job->right;
    return NULL;
}

static void check_threads(long calls)
{
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){ .number = i, .calls = calls };
        MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        require(jobs[i].right, "wrong data in a thread");
        MPI_Comm_free(&jobs[i].comm);
    }
}

/* ---- heap ----------------------------------------------------------------------------------- */

static void check_heap(long calls)
{
    const int counts[] = { 1, 100, 5000 };
    int most = 5000 * ranks;
    int *sent = (int *)calloc((size_t)most, sizeof(int)), *got = (int *)malloc(sizeof(int) * most);
    for (int in_place = 0; in_place < 2; in_place++) {
        long before = 0;
        for (long i = -3; i < calls; i++) {
            int count = counts[(i + 3) % 3];
            if (in_place)
                ATALL_Alltoall(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, got, count, MPI_INT,
                               MPI_COMM_WORLD);
            else
                ATALL_Alltoall(sent, count, MPI_INT, got, count, MPI_INT, MPI_COMM_WORLD);
            if (i < 0)
                before = allocations;
        }
        require(before > 0, "it did not allocate at all: the count is broken");
        require(allocations == before, "a later call allocated");
    }
    free(sent);
    free(got);
}

/* ---- large blocks --------------------------------------------------------------------------- */

/* Memory of all ranks' blocks that is only there where it is touched. */
static char *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "no address space");
    return (char *)memory;
}

/* Every peer's block carries a mark at its begin and end. */
static void check_large(long bytes)
{
    size_t block = (size_t)bytes;
    char *sent = reserve(block * (size_t)ranks), *got = reserve(block * (size_t)ranks);
    MPI_Datatype type;
    MPI_Type_contiguous((int)(bytes / 8), MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int peer = 0; peer < ranks; peer++) {
        sent[block * (size_t)peer] = (char)(1 + rank * ranks + peer);
        sent[block * (size_t)(peer + 1) - 1] = (char)(2 + rank * ranks + peer);
    }
    for (int way = 0; way < 2; way++) {
        if (way == 0)
            ATALL_Alltoall(sent, 1, type, got, 1, type, MPI_COMM_WORLD);
#if MPI_VERSION >= 4
        else
            ATALL_Alltoall_c(sent, (MPI_Count)bytes, MPI_BYTE, got, (MPI_Count)bytes, MPI_BYTE,
                             MPI_COMM_WORLD);
#endif
        for (int peer = 0; peer < ranks; peer++) {
            require(got[block * (size_t)peer] == (char)(1 + peer * ranks + rank) &&
                        got[block * (size_t)(peer + 1) - 1] == (char)(2 + peer * ranks + rank),
                    "a large block is wrong");
        }
    }
    MPI_Type_free(&type);
    munmap(sent, block * (size_t)ranks);
    munmap(got, block * (size_t)ranks);
}

/* ---- dispatch ------------------------------------------------------------------------------- */

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Median nanoseconds of a call, in batches that take turns. */
static void show_dispatch(long batches)
{
    enum { BATCH = 1000 };
    struct atall_process *process;
    struct atall_state *state;
    int sent = 1, got;
    double *times[2] = { (double *)malloc((size_t)batches * sizeof(double)),
                         (double *)malloc((size_t)batches * sizeof(double)) };
    ATALL_Alltoall(&sent, 1, MPI_INT, &got, 1, MPI_INT, MPI_COMM_SELF);
    atall_get_process(&process);
    int found;
    MPI_Comm_get_attr(MPI_COMM_SELF, process->key, &state, &found);
    const struct atall_row *row = atall_choose_row(state, sizeof sent);
    for (long i = 0; i < batches; i++)
        for (int way = 0; way < 2; way++) {
            double begin = MPI_Wtime();
            for (int j = 0; j < BATCH; j++)
                if (way)
                    ATALL_Alltoall(&sent, 1, MPI_INT, &got, 1, MPI_INT, MPI_COMM_SELF);
                else
                    atall_run(state, row, &sent, 1, MPI_INT, &got, 1, MPI_INT, sizeof sent);
            times[way][i] = (MPI_Wtime() - begin) / BATCH * 1e9;
        }
    for (int way = 0; way < 2; way++)
        qsort(times[way], (size_t)batches, sizeof(double), compare);
    printf("%s: %.0f ns, through the entry %.0f ns\n", row->label, times[0][batches / 2],
           times[1][batches / 2]);
    free(times[0]);
    free(times[1]);
}

int main(int argc, char **argv)
{
    long number = argc > 2 ? atol(argv[2]) : 0;
    const char *what = argc > 1 ? argv[1] : "";
    int provided, wanted = strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(what, "errors") == 0)
        check_errors();
    else if (strcmp(what, "communicators") == 0)
        check_communicators(number);
    else if (strcmp(what, "cycles") == 0)
        check_cycles(number);
    else if (strcmp(what, "threads") == 0 && provided == MPI_THREAD_MULTIPLE)
        check_threads(number);
    else if (strcmp(what, "heap") == 0)
        check_heap(number);
    else if (strcmp(what, "large") == 0)
        check_large(number);
    else if (strcmp(what, "dispatch") == 0)
        show_dispatch(number);
    else
        require(0, "no such check here");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("fine\n");
    MPI_Finalize();
    return 0;
}
