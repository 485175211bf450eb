/*
 * MPI in virtual time: what the emitted file calls, for ranks that are coroutines of one process.
 * The bodies themselves run, so that what is predicted is what ships; blocks have addresses, but
 * no memory and no contents, and copying them takes nothing but its virtual time.
 *
 * A rank is at work while it starts a send, copies, or takes in what has come (Vadhiyar, Fagg and
 * Dongarra 4.3: os, or); a send is over when the rest of it fits into the sender's socket, which
 * is what an Isend that finds gaps pending waits for. Where ranks share processors they take turns.
 */
#ifndef VIRTUAL_MPI_H
#define VIRTUAL_MPI_H

#include "virtual_network.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 1 << 18, HEADER = 24, MOST_COSTS = 64, MOST_TYPES = 4096, MOST_COMMS = 4096 };
enum { TAG_BARRIER = 1 << 20 };

#define ROOM ((size_t)1 << 40) /* addresses for blocks */

/* ---- what things cost ---------------------------------------------------------------------- */

/* When a send is over: when the rest of it fits into the sender's socket; when the receiver's
 * library has taken it in; or as the first, but it waits for the receive, which is asked for. */
enum mode { IMMEDIATE, DELIVERED, RENDEZVOUS, MODES };

static const char *const mode_names[MODES] = { "immediate", "delivered", "rendezvous" };

/* Of a message of so many bytes; seconds. A rank's sends take ``send`` as long as fewer than
 * ``first`` are under way; then ``middle``, but each time after ``gaps`` of them ``spike``. */
struct cost {
    double bytes, send, receive, latency;
    double first, middle, spike, gaps;
    double beside; /* work of shared processors while it is on its way */
    enum mode mode;
};

static struct {
    struct cost at[MOST_COSTS]; /* by bytes; on the line between two of them */
    int sizes;
    double copy;     /* seconds a byte */
    double buffered; /* bytes that a sender's socket holds */
    int processors;  /* that all ranks share; 0: each has its own */
} costs = { .buffered = 1 << 17 };

static inline struct cost cost_of(double bytes)
{
    const struct cost *to = costs.at, *last = costs.at + costs.sizes - 1, *from;
    while (to < last && to->bytes < bytes)
        to++;
    from = to > costs.at ? to - 1 : to;
    double share = to > from ? (bytes - from->bytes) / (to->bytes - from->bytes) : 0;
    struct cost cost = *to;
    share = share < 0 ? 0 : share;
    cost.bytes = bytes;
    cost.send = from->send + share * (to->send - from->send);
    cost.beside = from->beside + share * (to->beside - from->beside);
    cost.receive = from->receive + share * (to->receive - from->receive);
    if (bytes <= to->bytes)
        cost.latency = from->latency + share * (to->latency - from->latency);
    return cost;
}

/* ---- ranks --------------------------------------------------------------------------------- */

/* A block; what asks for its receive, and grants it; what says that it is there. */
enum message_kind { DATA, ASK, GRANT, ANSWER };

struct message {
    struct message *next; /* on its flow; then among those that nobody expected */
    enum message_kind kind;
    enum mode mode;
    int from, to, tag, bytes, send, receive; /* requests */
    MPI_Comm comm;
    long end; /* among the bytes of its flow */
};

/* Messages on a flow. */
struct mail {
    struct message *first, **last;       /* not arrived */
    struct message *leaving, **departed; /* copies of those that are not in the socket as a whole */
};

struct request {
    bool is_done;
    int next; /* of those posted by a rank, or free */
    int from, tag;
    MPI_Comm comm;
};

struct rank {
    ucontext_t context;
    char *stack, *host;
    int node;
    bool is_waiting, is_over;
    double busy;             /* until then */
    double debt;             /* of copying, not spent yet */
    int under_way;           /* messages that it sent and that have not arrived */
    double sent_late;        /* since the last spike */
    int posted, last_posted; /* receives, in their order */
    struct message *arrived; /* messages that no receive was posted for */
};

static struct {
    struct rank *rank;
    int ranks;
    int me; /* who runs */
    ucontext_t agenda;
    struct mail *mail;
    struct request *request;
    int requests, spare; /* spare: the first free one */
    double *processor;   /* when each is free */
    char *blocks;
    int type[MOST_TYPES]; /* bytes of those that were made */
    void (*task)(int rank);
} world;

static inline void leave_rank(void)
{
    swapcontext(&world.rank[world.me].context, &world.agenda);
}

static inline void resume(int rank, void *unused)
{
    (void)unused;
    world.me = rank;
    swapcontext(&world.agenda, &world.rank[rank].context);
}

static inline void wake(int rank)
{
    if (world.rank[rank].is_waiting)
        note(agenda.now, resume, rank, NULL);
    world.rank[rank].is_waiting = false;
}

static inline void wait_here(void)
{
    world.rank[world.me].is_waiting = true;
    leave_rank();
}

/* The one of the shared processors that is free first; NULL: each rank has its own. */
static inline double *next_processor(void)
{
    double *first = NULL;
    for (int i = 0; i < costs.processors; i++)
        if (!first || world.processor[i] < *first)
            first = &world.processor[i];
    return first;
}

/* When a rank has done so much work, which it begins when it and a processor are free. */
static inline double occupy(int rank, double seconds)
{
    struct rank *who = &world.rank[rank];
    double start = who->busy > agenda.now ? who->busy : agenda.now;
    double *processor = next_processor();
    if (processor && *processor > start)
        start = *processor;
    if (processor)
        *processor = start + seconds;
    return who->busy = start + seconds;
}

static double work_beside(double seconds)
{
    double *processor = seconds > 0 ? next_processor() : NULL;
    if (!processor)
        return agenda.now;
    return *processor = (*processor > agenda.now ? *processor : agenda.now) + seconds;
}

/* The rank that runs works for so long. */
static inline void spend(double seconds)
{
    struct rank *who = &world.rank[world.me];
    seconds += who->debt;
    who->debt = 0;
    note(occupy(world.me, seconds), resume, world.me, NULL);
    leave_rank();
}

static inline void run_rank(void)
{
    world.task(world.me);
    world.rank[world.me].is_over = true;
    leave_rank();
}

static inline void prepare_rank(int rank)
{
    struct rank *who = &world.rank[rank];
    getcontext(&who->context);
    who->context.uc_stack.ss_sp = who->stack;
    who->context.uc_stack.ss_size = STACK;
    who->is_over = who->is_waiting = false;
    makecontext(&who->context, run_rank, 0);
    note(agenda.now, resume, rank, NULL);
}

/* Let all ranks do a task; false if some wait for ever. */
static inline bool run_ranks(void (*task)(int rank))
{
    bool all_over = true;
    world.task = task;
    for (int r = 0; r < world.ranks; r++)
        prepare_rank(r);
    pass_time();
    for (int r = 0; r < world.ranks; r++)
        all_over = all_over && world.rank[r].is_over;
    return all_over;
}

/* ---- blocks: addresses without memory ------------------------------------------------------ */

static inline bool is_block(const void *address)
{
    return (const char *)address >= world.blocks && (const char *)address < world.blocks + ROOM;
}

static inline void *virtual_copy(void *to, const void *from, size_t bytes)
{
    if (!is_block(to) && !is_block(from))
        return memcpy(to, from, bytes);
    world.rank[world.me].debt += costs.copy * (double)bytes;
    return to;
}

static inline void *virtual_set(void *to, int value, size_t bytes)
{
    return is_block(to) ? to : memset(to, value, bytes);
}

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
    note(occupy(rank, cost_of(bytes).receive), handle, rank, what);
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
    note(occupy(back->from, cost_of(0).send), put_later, back->from, back);
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
    struct message *message = (struct message *)what, **end;
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
        for (end = &who->arrived; *end; end = &(*end)->next)
            ;
        message->next = NULL;
        *end = message;
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
    const void **part; /* what each shows the others */
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
    if (++comm->present < comm->size) {
        wait_here();
        return;
    }
    comm->present = 0;
    for (int i = 0; i < comm->size; i++)
        if (comm->member[i] != world.me)
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
    MPI_Request requests[2];
    PMPI_Irecv(in, in_count, in_type, from, in_tag, comm, &requests[0]);
    PMPI_Isend(out, out_count, out_type, to, out_tag, comm, &requests[1]);
    (void)status;
    return PMPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
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

/* ---- MPI, where no time counts: what a communicator's first use asks for --------------------- */

int PMPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm)
{
    const struct comm *all = comm_of(comm);
    int *result = (int *)obtain((size_t)count * sizeof(int));
    if (type != MPI_INT || (op != MPI_MIN && op != MPI_MAX))
        give_up("an operation that is not here");
    show(comm, in == MPI_IN_PLACE ? out : in);
    memcpy(result, all->part[0], (size_t)count * sizeof(int));
    for (int r = 1; r < all->size; r++)
        for (int i = 0; i < count; i++) {
            int other = ((const int *)all->part[r])[i];
            if (op == MPI_MIN ? other < result[i] : other > result[i])
                result[i] = other;
        }
    meet(comm);
    memcpy(out, result, (size_t)count * sizeof(int));
    free(result);
    return MPI_SUCCESS;
}

int PMPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm)
{
    size_t bytes = (size_t)bytes_of(in_count, in_type);
    (void)out_count, (void)out_type;
    show(comm, in);
    for (int r = 0; r < comm_of(comm)->size; r++)
        memcpy((char *)out + (size_t)r * bytes, comm_of(comm)->part[r], bytes);
    meet(comm);
    return MPI_SUCCESS;
}

int PMPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    show(comm, buffer);
    if (number_in(comm) != root)
        memcpy(buffer, comm_of(comm)->part[root], (size_t)bytes_of(count, type));
    meet(comm);
    return MPI_SUCCESS;
}

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
    const struct comm *all = comm_of(comm);
    int wish[2] = { color, key }, size = 0, *member;
    member = (int *)obtain((size_t)all->size * sizeof *member);
    show(comm, wish);
    for (int r = 0; r < all->size; r++) {
        const int *other = (const int *)all->part[r];
        int place = size;
        if (other[0] != color)
            continue;
        for (; place > 0; place--) { /* by key, then by rank */
            const int *before = (const int *)all->part[all->number[member[place - 1]]];
            if (before[1] <= other[1])
                break;
            member[place] = member[place - 1];
        }
        member[place] = all->member[r];
        size++;
    }
    meet(comm);
    *made = member[0] == world.me ? new_comm(member, size) : MPI_COMM_NULL;
    show(comm, made);
    *made = *(const MPI_Comm *)all->part[all->number[member[0]]];
    meet(comm);
    free(member);
    return MPI_SUCCESS;
}

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
    (void)group;
    return PMPI_Comm_split(comm, 0, 0, made);
}

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    *rank = number_in(comm);
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    *size = comm_of(comm)->size;
    return MPI_SUCCESS;
}

int PMPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
    (void)comm;
    *flag = 0;
    return MPI_SUCCESS;
}

int PMPI_Get_processor_name(char *name, int *length)
{
    *length = snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", world.rank[world.me].host);
    return MPI_SUCCESS;
}

int PMPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype *made)
{
    int bytes = bytes_of(count, type), i = 0;
    while (i < MOST_TYPES && world.type[i] != 0 && world.type[i] != bytes)
        i++;
    if (i == MOST_TYPES)
        give_up("too many types");
    world.type[i] = bytes; /* never freed: types of a size are one */
    *made = (MPI_Datatype)i;
    return MPI_SUCCESS;
}

int PMPI_Type_create_indexed_block(int count, int length, const int *places, MPI_Datatype type,
                                   MPI_Datatype *made)
{
    (void)places;
    return PMPI_Type_contiguous(count * length, type, made);
}

int PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size)
{
    *size = bytes_of(1, type);
    return MPI_SUCCESS;
}

int PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *least, MPI_Aint *extent)
{
    *least = 0;
    *extent = bytes_of(1, type);
    return MPI_SUCCESS;
}

int PMPI_Type_get_envelope(MPI_Datatype type, int *integers, int *addresses, int *types,
                           int *combiner)
{
    (void)type;
    *integers = *addresses = *types = 0;
    *combiner = MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}

#if MPI_VERSION >= 4
int PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
                             MPI_Count *large, MPI_Count *types, int *combiner)
{
    (void)type;
    *integers = *addresses = *large = *types = 0;
    *combiner = MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}
#endif

int PMPI_Type_commit(MPI_Datatype *type)
{
    (void)type;
    return MPI_SUCCESS;
}

int PMPI_Type_free(MPI_Datatype *type)
{
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

#endif
