/*
 * MPI in virtual time: what the emitted file calls, for ranks that are coroutines of one process.
 * The bodies themselves run, so that what is predicted is what ships; blocks have addresses, but
 * no memory and no contents, and copying them takes nothing but its virtual time.
 *
 * A rank is at work while it starts a send, copies, or takes in what has come (Vadhiyar, Fagg and
 * Dongarra 4.3: os, or); a send is over when the rest of it fits into the sender's socket, which
 * is what an Isend that finds gaps pending waits for. Where ranks share processors they take turns.
 */
#ifndef VIRTUAL_MESSAGES_H
#define VIRTUAL_MESSAGES_H

#include "virtual_ranks.h"

/* ---- messages ------------------------------------------------------------------------------ */

static inline int new_request(int from, int tag, MPI_Comm comm)
{
    int made = world.spare;
    if (!made) {
        int more = world.requests ? 2 * world.requests : 1024;
        world.request =
            (struct request *)realloc(world.request, (size_t)more * sizeof *world.request);
        if (!world.request)
            give_up("no memory");
        for (int i = more - 1; i >= world.requests; i--) {
            world.request[i].next = world.spare;
            world.spare = i;
        }
        if (world.requests == 0)
            world.spare = 1; /* 0 is none */
        world.requests = more;
        made = world.spare;
    }
    world.spare = world.request[made].next;
    world.request[made] = (struct request){ .from = from, .tag = tag, .comm = comm };
    return made;
}

static inline void free_request(MPI_Request *request)
{
    world.request[*request].next = world.spare;
    world.spare = *request;
    *request = MPI_REQUEST_NULL;
}

static inline void finish(int request, int rank)
{
    world.request[request].is_done = true;
    wake(rank);
}

static inline int flow_between(int from, int to)
{
    return from * world.ranks + to;
}

/* Put a message on its flow. */
static inline void put(struct message message)
{
    int number = flow_between(message.from, message.to);
    struct flow *flow = &network.flow[number];
    struct mail *mail = &world.mail[number];
    struct message *made = (struct message *)obtain(sizeof *made), *leaving;
    flow->written += HEADER + (message.kind == DATA ? message.bytes : 0);
    *made = message;
    made->next = NULL;
    made->end = flow->written;
    *mail->last = made;
    mail->last = &made->next;
    if (message.kind == DATA) {
        world.rank[message.from].under_way++;
        flow->work = cost_of(message.bytes).beside / ((message.bytes + HEADER - 1) / SEGMENT + 1);
    }
    if (message.kind == DATA && message.mode != DELIVERED) {
        leaving = (struct message *)obtain(sizeof *leaving);
        *leaving = *made;
        *mail->departed = leaving;
        mail->departed = &leaving->next;
    }
    if (flow->hops == 0)
        flow->next = flow->highest = flow->acknowledged = flow->written;
    else
        send_more(number);
    flow_progressed(number);
}

static inline void handle(int rank, void *what);

/* A message is at its rank's host: the rank takes it in. */
static inline void come(int rank, void *what)
{
    const struct message *message = (struct message *)what;
    double bytes = message->kind == DATA ? message->bytes : 0;
    occupy(rank, cost_of(bytes).receive, handle, rank, what);
}

static void flow_progressed(int number)
{
    const struct flow *flow = &network.flow[number];
    struct mail *mail = &world.mail[number];
    struct message *message;
    while ((message = mail->first) && message->end <= arrived(flow)) {
        double bytes = message->kind == DATA ? message->bytes : 0;
        mail->first = message->next;
        if (!mail->first)
            mail->last = &mail->first;
        if (message->kind == DATA)
            world.rank[message->from].under_way--;
        note(agenda.now + cost_of(bytes).latency, come, message->to, message);
    }
    while ((message = mail->leaving) &&
           (double)(message->end - flow->acknowledged) <= costs.buffered) {
        mail->leaving = message->next;
        if (!mail->leaving)
            mail->departed = &mail->leaving;
        finish(message->send, message->from);
        free(message);
    }
}

static inline bool fits(const struct request *receive, const struct message *message)
{
    return receive->from == message->from && receive->tag == message->tag &&
           receive->comm == message->comm;
}

static inline void put_later(int rank, void *what)
{
    struct message *message = (struct message *)what;
    (void)rank;
    put(*message);
    free(message);
}

/* Send something back to where a message came from. */
static inline void answer(const struct message *message, enum message_kind kind, int receive)
{
    struct message *back = (struct message *)obtain(sizeof *back);
    *back = *message;
    back->kind = kind;
    back->from = message->to;
    back->to = message->from;
    back->receive = receive;
    occupy(back->from, cost_of(0).send, put_later, back->from, back);
}

/* A message and the receive for it have met: true if that is over now. */
static inline bool match(const struct message *message, int receive)
{
    if (message->kind == ASK)
        answer(message, GRANT, receive);
    return message->kind == DATA;
}

/* The receive that was posted for a message, taken out of those posted; 0: none was. */
static inline int take_posted(struct rank *who, const struct message *message)
{
    int before = 0, found = who->posted;
    while (found && !fits(&world.request[found], message)) {
        before = found;
        found = world.request[found].next;
    }
    if (!found)
        return 0;
    if (before)
        world.request[before].next = world.request[found].next;
    else
        who->posted = world.request[found].next;
    if (who->last_posted == found)
        who->last_posted = before;
    return found;
}

static inline void handle(int rank, void *what)
{
    struct message *message = (struct message *)what;
    struct rank *who = &world.rank[rank];
    if (message->kind == GRANT)
        answer(message, DATA, message->receive);
    if (message->kind == ANSWER)
        finish(message->send, rank);
    if (message->kind == GRANT || message->kind == ANSWER) {
        free(message);
        return;
    }
    if (message->kind == DATA && message->mode == DELIVERED)
        answer(message, ANSWER, 0);
    int receive = message->receive ? message->receive : take_posted(who, message);
    if (receive == 0) {
        message->next = NULL;
        *who->arrived_end = message;
        who->arrived_end = &message->next;
        return;
    }
    if (match(message, receive))
        finish(receive, rank);
    free(message);
}

/* ---- MPI ----------------------------------------------------------------------------------- */

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
