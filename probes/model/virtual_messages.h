/*
 * Messages between ranks in virtual time.
 *
 * A rank is at work while it starts a send, copies, or takes in what has come (Vadhiyar, Fagg and
 * Dongarra 4.3: o_s, o_r); a send is over when the rest of it fits into the sender's socket, which
 * is what an Isend that finds gaps pending waits for. Where ranks share processors they take turns.
 */
#ifndef VIRTUAL_MESSAGES_H
#define VIRTUAL_MESSAGES_H

#include "virtual_ranks.h"

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

#endif
