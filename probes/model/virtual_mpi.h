/*
 * MPI in virtual time: what the emitted file calls, for ranks that are coroutines of one process.
 * The bodies themselves run, so that what is predicted is what ships; blocks have addresses, but
 * no memory and no contents, and copying them takes nothing but its virtual time.
 */
#ifndef VIRTUAL_MPI_H
#define VIRTUAL_MPI_H

#include "virtual_messages.h"

/* A group of ranks, and what they hand each other when they meet. */
struct comm {
    int size, *member, *number; /* the world's rank of each; the number of each of the world's */
    int present;
    unsigned long turn; /* they have met so often */
    const void **part;  /* what each shows the others */
};

static struct comm comms[MOST_COMMS + 1];
static int comms_made;

static inline struct comm *comm_of(MPI_Comm handle)
{
    return &comms[handle];
}

static inline int number_in(MPI_Comm comm)
{
    return comm_of(comm)->number[world.me];
}

static inline MPI_Comm new_comm(const int *member, int size)
{
    struct comm *made = &comms[++comms_made];
    if (comms_made == MOST_COMMS)
        give_up("too many communicators");
    made->size = size;
    made->member = (int *)obtain((size_t)size * sizeof(int));
    made->number = (int *)obtain((size_t)world.ranks * sizeof(int));
    made->part = (const void **)obtain((size_t)size * sizeof(void *));
    for (int i = 0; i < size; i++) {
        made->member[i] = member[i];
        made->number[member[i]] = i;
    }
    return (MPI_Comm)comms_made;
}

/* All of a communicator at once, in no time. */
static inline void meet(MPI_Comm handle)
{
    struct comm *comm = comm_of(handle);
    unsigned long turn = comm->turn;
    if (++comm->present < comm->size) {
        while (comm->turn == turn)
            wait_here();
        return;
    }
    comm->present = 0;
    comm->turn++;
    for (int i = 0; i < comm->size; i++)
        wake(comm->member[i]);
}

/* The same, to show each other something: all have seen it when they meet again. */
static inline void show(MPI_Comm comm, const void *part)
{
    comm_of(comm)->part[number_in(comm)] = part;
    meet(comm);
}

static inline int bytes_of(int count, MPI_Datatype type)
{
    if (type == MPI_BYTE)
        return count;
    if (type == MPI_INT)
        return count * (int)sizeof(int);
    if (type == MPI_UINT64_T)
        return count * 8;
    return count * world.type[type];
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    struct rank *who = &world.rank[world.me];
    (void)buffer, (void)count, (void)type;
    *request = new_request(from == MPI_PROC_NULL ? 0 : comm_of(comm)->member[from], tag, comm);
    if (from == MPI_PROC_NULL) {
        world.request[*request].is_done = true;
        return MPI_SUCCESS;
    }
    for (struct message **place = &who->arrived; *place; place = &(*place)->next) {
        struct message *message = *place;
        if (!fits(&world.request[*request], message))
            continue;
        *place = message->next;
        if (!message->next)
            who->arrived_end = place;
        if (match(message, *request)) {
            who->debt += costs.copy * message->bytes; /* from where it was kept */
            world.request[*request].is_done = true;
        }
        free(message);
        return MPI_SUCCESS;
    }
    world.request[*request].next = 0;
    if (who->last_posted)
        world.request[who->last_posted].next = *request;
    else
        who->posted = *request;
    who->last_posted = *request;
    return MPI_SUCCESS;
}

/* Seconds of work that a rank's next Isend is: by the gaps pending (4.3, equation 1). */
static inline double isend_seconds(struct rank *who, const struct cost *cost)
{
    if (who->under_way < cost->first) {
        who->sent_late = 0;
        return cost->send;
    }
    if (cost->gaps <= 0 || who->sent_late++ < cost->gaps)
        return cost->middle;
    who->sent_late = 0;
    return cost->spike;
}

int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    struct message message = { .from = world.me, .tag = tag, .comm = comm };
    (void)buffer;
    if (count < 0)
        give_up("a negative count");
    *request = message.send = new_request(0, tag, comm);
    if (to == MPI_PROC_NULL) {
        world.request[*request].is_done = true;
        return MPI_SUCCESS;
    }
    message.bytes = bytes_of(count, type);
    message.to = comm_of(comm)->member[to];
    struct cost cost = cost_of(message.bytes);
    message.mode = cost.mode;
    message.kind = cost.mode == RENDEZVOUS ? ASK : DATA;
    spend(isend_seconds(&world.rank[world.me], &cost));
    put(message);
    return MPI_SUCCESS;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    (void)status;
    if (*request == MPI_REQUEST_NULL)
        return MPI_SUCCESS;
    while (!world.request[*request].is_done)
        wait_here();
    free_request(request);
    return MPI_SUCCESS;
}

int PMPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    (void)statuses;
    for (int i = 0; i < count; i++)
        PMPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}

int PMPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    bool is_any = true;
    (void)status;
    while (is_any) {
        is_any = false;
        for (*index = 0; *index < count; ++*index) {
            if (requests[*index] == MPI_REQUEST_NULL)
                continue;
            is_any = true;
            if (world.request[requests[*index]].is_done) {
                free_request(&requests[*index]);
                return MPI_SUCCESS;
            }
        }
        if (is_any)
            wait_here();
    }
    *index = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    MPI_Request request;
    PMPI_Isend(buffer, count, type, to, tag, comm, &request);
    return PMPI_Wait(&request, MPI_STATUS_IGNORE);
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    MPI_Request request;
    PMPI_Irecv(buffer, count, type, from, tag, comm, &request);
    return PMPI_Wait(&request, status);
}

int PMPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                  void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                  MPI_Status *status)
{
    MPI_Request received, sent;
    PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &received);
    PMPI_Isend(out, out_count, out_type, to, out_tag, comm, &sent);
    PMPI_Wait(&received, status);
    return PMPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* Dissemination, as MPICH's. */
int PMPI_Barrier(MPI_Comm comm)
{
    const int p = comm_of(comm)->size, own = number_in(comm);
    for (int hop = 1; hop < p; hop *= 2)
        PMPI_Sendrecv(NULL, 0, MPI_BYTE, (own + hop) % p, TAG_BARRIER, NULL, 0, MPI_BYTE,
                      (own - hop + p) % p, TAG_BARRIER, comm, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}

#endif
