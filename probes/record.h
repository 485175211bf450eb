/*
 * Records every message that algorithms send and receive, if included before them: their PMPI
 * calls go through the functions below, which pass them on and note, while `recording`, when a
 * message was started and when it was seen to be complete.
 *
 * A wait for all is a series of waits for any, so that each message has its own time.
 */
#ifndef RECORD_H
#define RECORD_H

#include <mpi.h>
#include <stddef.h>
#include <time.h>

enum { RECORD_MOST = 1 << 16 };

/* One message as one of its two ranks saw it; seconds of the monotonic clock. */
struct record_message {
    int peer, tag, bytes;
    int is_receive;
    double posted, complete;    /* complete: 0 while it is not */
    const MPI_Request *request; /* where its request is; NULL: done with */
};

static struct record_message record_messages[RECORD_MOST];
static int record_count; /* may exceed RECORD_MOST: then some are missing */
static int recording;

static inline double record_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void record_post(int is_receive, int peer, int tag, int count, MPI_Datatype type,
                               const MPI_Request *request)
{
    int size;
    if (!recording)
        return;
    PMPI_Type_size(type, &size);
    if (record_count < RECORD_MOST)
        record_messages[record_count] = (struct record_message){
            peer, tag, count * size, is_receive, record_now(), 0, request
        };
    record_count++;
}

/* The place of the message whose request is at an address; -1: none. */
static inline int record_find(const MPI_Request *request)
{
    int i = record_count < RECORD_MOST ? record_count - 1 : RECORD_MOST - 1;
    while (i >= 0 && record_messages[i].request != request)
        i--;
    return i;
}

/* Note that the request at an address is done with. The next part of the same message, which may
 * be waited for much later, is looked at each time. */
static inline void record_complete(const MPI_Request *request)
{
    static int next = -1;
    if (!recording)
        return;
    double now = record_now();
    int at = record_find(request), done = 0;
    if (at < 0)
        return;
    struct record_message *message = &record_messages[at];
    if (message->complete == 0)
        message->complete = now;
    message->request = NULL;
    if (next >= 0 && next < record_count && record_messages[next].request &&
        record_messages[next].complete == 0)
        PMPI_Request_get_status(*record_messages[next].request, &done, MPI_STATUS_IGNORE);
    if (done)
        record_messages[next].complete = now;
    if (message->is_receive)
        for (next = at + 1; next < record_count; next++)
            if (record_messages[next].is_receive && record_messages[next].peer == message->peer &&
                record_messages[next].tag == message->tag)
                return;
    next = -1;
}

static inline int record_isend(const void *data, int count, MPI_Datatype type, int to, int tag,
                               MPI_Comm comm, MPI_Request *request)
{
    record_post(0, to, tag, count, type, request);
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

static inline int record_irecv(void *data, int count, MPI_Datatype type, int from, int tag,
                               MPI_Comm comm, MPI_Request *request)
{
    record_post(1, from, tag, count, type, request);
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

static inline int record_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    int err = PMPI_Waitany(count, requests, index, status);
    if (err == MPI_SUCCESS && *index != MPI_UNDEFINED)
        record_complete(&requests[*index]);
    return err;
}

static inline int record_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int index = 0, err = MPI_SUCCESS;
    (void)statuses; /* the algorithms pass MPI_STATUSES_IGNORE */
    while (err == MPI_SUCCESS && index != MPI_UNDEFINED)
        err = record_waitany(count, requests, &index, MPI_STATUS_IGNORE);
    return err;
}

static inline int record_wait(MPI_Request *request, MPI_Status *status)
{
    (void)status;
    return record_waitall(1, request, MPI_STATUSES_IGNORE);
}

static inline int record_send(const void *data, int count, MPI_Datatype type, int to, int tag,
                              MPI_Comm comm)
{
    MPI_Request request;
    int err = record_isend(data, count, type, to, tag, comm, &request);
    return err == MPI_SUCCESS ? record_wait(&request, MPI_STATUS_IGNORE) : err;
}

static inline int record_sendrecv(const void *out, int sends, MPI_Datatype sendtype, int to,
                                  int send_tag, void *in, int receives, MPI_Datatype recvtype,
                                  int from, int recv_tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request both[2];
    (void)status;
    int err = record_irecv(in, receives, recvtype, from, recv_tag, comm, &both[0]);
    if (err == MPI_SUCCESS)
        err = record_isend(out, sends, sendtype, to, send_tag, comm, &both[1]);
    return err == MPI_SUCCESS ? record_waitall(2, both, MPI_STATUSES_IGNORE) : err;
}

#define PMPI_Isend record_isend
#define PMPI_Irecv record_irecv
#define PMPI_Send record_send
#define PMPI_Sendrecv record_sendrecv
#define PMPI_Wait record_wait
#define PMPI_Waitany record_waitany
#define PMPI_Waitall record_waitall

#endif
