/*
 * A rank that waits for the others in MPI_Finalize answers them, for emulated hosts (LD_PRELOAD).
 *
 * Over UCX MPICH before 4.2 closes its connections and then waits in a barrier of the launcher's,
 * where it does not answer ranks that are still closing theirs: with TCP all of them hang, more
 * often the less they spin (pmodels/mpich#6596 took the barrier away). Here the barrier's read goes
 * on with UCX until there is something to read.
 */
#define _GNU_SOURCE
#include "next.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BETWEEN_MILLISECONDS = 1 };

static void *worker;         /* the first: MPICH has others only if it is told to */
static __thread int closing; /* by this thread: UCX has one of its own, which reads, too */

static int (*real_create)(void *, const void *, void **);
static void (*real_destroy)(void *);
static void *(*real_disconnect)(void *);
static unsigned (*progress)(void *);

/* As UCX declares them; where MPICH does without it nobody calls them. */
int ucp_worker_create(void *context, const void *parameters, void **made);
void ucp_worker_destroy(void *old);
void *ucp_disconnect_nb(void *endpoint);

__attribute__((constructor)) static void answering_start(void)
{
    FIND_NEXT(real_create, "ucp_worker_create");
    FIND_NEXT(real_destroy, "ucp_worker_destroy");
    FIND_NEXT(real_disconnect, "ucp_disconnect_nb");
    FIND_NEXT(progress, "ucp_worker_progress");
}

int ucp_worker_create(void *context, const void *parameters, void **made)
{
    int status = real_create(context, parameters, made);
    if (!status && !worker)
        worker = *made;
    return status;
}

void ucp_worker_destroy(void *old)
{
    if (old == worker)
        worker = NULL;
    real_destroy(old);
}

void *ucp_disconnect_nb(void *endpoint)
{
    closing = 1;
    return real_disconnect(endpoint);
}

ssize_t read(int fd, void *buffer, size_t bytes)
{
    static __thread int answering; /* UCX reads while it goes on */
    if (closing && worker && !answering) {
        struct pollfd readable = { .fd = fd, .events = POLLIN };
        answering = 1;
        while (poll(&readable, 1, BETWEEN_MILLISECONDS) == 0)
            progress(worker);
        answering = 0;
    }
    return syscall(SYS_read, fd, buffer, bytes); /* libraries read before we start */
}
