/*
 * Ranks in virtual time: coroutines of one process, which take turns as they wait; what messages
 * cost them; and blocks, which have addresses but no contents.
 */
#ifndef VIRTUAL_RANKS_H
#define VIRTUAL_RANKS_H

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
    double wake;     /* seconds of work before a rank that waited goes on */
} costs = { .buffered = 1 << 17 };

/* On the line through two values, or beyond the second; not below 0. */
static inline double on_line(double from, double to, double share)
{
    double value = from + share * (to - from);
    return value > 0 ? value : 0;
}

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
    cost.send = on_line(from->send, to->send, share);
    cost.receive = on_line(from->receive, to->receive, share);
    cost.beside = on_line(from->beside, to->beside, share);
    cost.latency = on_line(from->latency, to->latency, share < 1 ? share : 1);
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
    double debt;                            /* of copying, not spent yet */
    int under_way;                          /* messages that it sent and that have not arrived */
    double sent_late;                       /* since the last spike */
    int posted, last_posted;                /* receives, in their order */
    struct message *arrived, **arrived_end; /* messages that no receive was posted for */
};

/* Something that a processor does for a while, and what happens then. */
struct work {
    struct work *next;
    double seconds;
    happening *then;
    int number;
    void *what;
};

/* Who needs a processor: it keeps it until it has nothing more to do. */
struct worker {
    struct worker *next; /* of those that wait for one */
    struct work *first, *last;
    bool is_at_work; /* or waits for a processor */
};

static struct {
    struct rank *rank;
    int ranks;
    int me; /* who runs */
    ucontext_t agenda;
    struct mail *mail;
    struct request *request;
    int requests, spare;   /* spare: the first free one */
    struct worker *worker; /* the ranks, and the kernels of their hosts */
    struct worker *runnable;
    int idle; /* processors */
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

static inline void wait_here(void)
{
    world.rank[world.me].is_waiting = true;
    leave_rank();
}

/* ---- processors ---------------------------------------------------------------------------- */

static inline void finish_work(int who, void *what);

static inline void do_next(int who, double pause)
{
    note(agenda.now + pause + world.worker[who].first->seconds, finish_work, who, NULL);
}

/* Let those that wait for a processor have one, in their order. */
static inline void dispatch(void)
{
    while (world.idle > 0 && world.runnable) {
        int who = (int)(world.runnable - world.worker);
        world.runnable = world.runnable->next;
        world.idle--;
        do_next(who, who < world.ranks ? costs.wake : 0);
    }
}

/* Something is done: what it was done for happens, and may bring more, which is done at once. */
static inline void finish_work(int who, void *unused)
{
    struct worker *worker = &world.worker[who];
    struct work *done = worker->first;
    (void)unused;
    done->then(done->number, done->what);
    worker->first = done->next;
    free(done);
    if (worker->first) {
        do_next(who, 0);
        return;
    }
    worker->is_at_work = false;
    world.idle++;
    dispatch();
}

/* Work of a rank, or of the kernel on its behalf, behind what it has to do already. */
static inline void occupy(int who, double seconds, happening *then, int number, void *what)
{
    struct worker *worker = &world.worker[who], **end;
    struct work *made = (struct work *)obtain(sizeof *made);
    *made = (struct work){ NULL, seconds, then, number, what };
    if (worker->first)
        worker->last->next = made;
    else
        worker->first = made;
    worker->last = made;
    if (worker->is_at_work)
        return;
    worker->is_at_work = true;
    worker->next = NULL;
    for (end = &world.runnable; *end; end = &(*end)->next)
        ;
    *end = worker;
    dispatch();
}

static void work_beside(int flow, double seconds, happening *then, void *what)
{
    if (seconds > 0)
        occupy(world.ranks + flow % world.ranks, seconds, then, flow, what);
    else
        note(agenda.now, then, flow, what);
}

/* What a rank waits for may be there: it looks. */
static inline void wake(int rank)
{
    if (world.rank[rank].is_waiting)
        occupy(rank, 0, resume, rank, NULL);
    world.rank[rank].is_waiting = false;
}

/* The rank that runs works for so long. */
static inline void spend(double seconds)
{
    struct rank *who = &world.rank[world.me];
    seconds += who->debt;
    who->debt = 0;
    occupy(world.me, seconds, resume, world.me, NULL);
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
    if (!who->arrived)
        who->arrived_end = &who->arrived;
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

#endif
