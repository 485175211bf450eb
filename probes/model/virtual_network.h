/*
 * A network in virtual time: a tree of switches whose ports queue whole frames and drop what they
 * have no room for, and on it TCP, as far as it decides how long a message takes.
 *
 * A flow is the connection from one rank to another. It may have a window of bytes under way,
 * which grows by what is acknowledged while it is small, by a segment a round trip later, and
 * shrinks when a segment is lost. A loss is noticed when something that was sent later is
 * acknowledged. The end of a message has nothing behind it: a probe goes after two round trips if
 * several segments are under way, else all wait for a time-out of 200 ms, which is what makes a
 * burst into a port dear (RFC 5681, 6298, 8985, 9438).
 */
#ifndef VIRTUAL_NETWORK_H
#define VIRTUAL_NETWORK_H

#include "virtual_time.h"

enum {
    SEGMENT = 1448,       /* payload bytes of a full frame */
    WIRE = 90,            /* bytes that a frame takes on the wire beside its payload */
    SEGMENTS_A_REPLY = 2, /* acknowledged by a frame of its own */
    FIRST_WINDOW = 10,    /* segments */
    IN_NIC = 2,           /* segments of a flow that its host's own queue holds at a time */
    MOST_HOPS = 64
};

#define PROBE_PAUSE 8e-3 /* seconds, beside two round trips, until a probe is sent */
#define SHRINK 0.7

/* Seconds until what nobody acknowledges is sent again. */
static double retransmission_timeout = 0.2;

/* What leaves one end of a cable. */
struct port {
    double rate;   /* bytes a second on the wire */
    double buffer; /* bytes that it queues; 0: as many as come */
    double burst;  /* bytes that pass at once after a pause: what shapes traffic lets them */
    double until;  /* when all that it has is gone */
};

enum fate { FLYING, DROPPED, WAITING };

struct segment {
    struct segment *next; /* of those missing */
    int bytes, hop;
    enum fate fate;
    bool is_missing;    /* it was dropped and has not arrived since */
    long begin;         /* among the flow's bytes */
    unsigned long turn; /* the how manieth that its flow sent; sent again it has another */
    double left;
};

struct flow {
    struct port **path, **back; /* there, and of the acknowledgements */
    int hops;
    long written, next, highest, acknowledged; /* bytes */
    double under_way, window, threshold;       /* bytes */
    int in_nic, unanswered;
    bool is_limited;         /* by the window, since the last acknowledgement */
    struct segment *missing; /* in the order of their bytes */
    int waiting;             /* of the missing ones */
    long recovering;         /* losses before this byte have shrunk the window */
    unsigned long turn, confirmed;
    double work;               /* seconds of processors for a segment, where hosts share them */
    double round_trip, latest; /* the latest segment left then */
    double due;                /* when the alarm means something */
    bool has_alarm, has_probed;
};

static struct {
    struct flow *flow;
    struct segment *spare;
    long resent, timeouts;
    bool is_lossless; /* ports have room for everything */
} network;

/* The layer above: some bytes of a flow have arrived, or are known to have. */
static void flow_progressed(int number);

/* Let the processors that hosts share work for so long, if at all, on what came on a flow. */
static void work_beside(int flow, double seconds, happening *then, void *what);

static void send_more(int number);

static void reset_flow(struct flow *flow)
{
    *flow = (struct flow){ .path = flow->path,
                           .back = flow->back,
                           .hops = flow->hops,
                           .window = FIRST_WINDOW * SEGMENT,
                           .threshold = 1e18,
                           .latest = agenda.now };
}

static struct segment *new_segment(long begin, int bytes)
{
    struct segment *made = network.spare;
    if (made)
        network.spare = made->next;
    else
        made = (struct segment *)obtain(sizeof *made);
    *made = (struct segment){ .begin = begin, .bytes = bytes };
    return made;
}

static void free_segment(struct segment *segment)
{
    segment->next = network.spare;
    network.spare = segment;
}

/* Bytes that have arrived without a gap. */
static long arrived(const struct flow *flow)
{
    return flow->missing ? flow->missing->begin : flow->highest;
}

/* When so many bytes that come to a port now have left it. */
static double pass(struct port *port, double bytes)
{
    double since = agenda.now - port->burst / port->rate;
    port->until = (port->until > since ? port->until : since) + bytes / port->rate;
    return port->until > agenda.now ? port->until : agenda.now;
}

static double queued(const struct port *port)
{
    return port->until > agenda.now ? (port->until - agenda.now) * port->rate : 0;
}

/* ---- losses -------------------------------------------------------------------------------- */

static void drop(struct flow *flow, struct segment *segment)
{
    struct segment **place = &flow->missing;
    segment->fate = DROPPED;
    if (segment->is_missing)
        return;
    segment->is_missing = true;
    while (*place && (*place)->begin < segment->begin)
        place = &(*place)->next;
    segment->next = *place;
    *place = segment;
}

static void shrink(struct flow *flow)
{
    double least = 2 * SEGMENT, less = SHRINK * flow->window;
    flow->window = flow->threshold = less > least ? less : least;
    flow->recovering = flow->next;
}

/* All dropped segments but those sent after a turn will be sent again. */
static void notice_losses(struct flow *flow, unsigned long turn)
{
    for (struct segment *lost = flow->missing; lost; lost = lost->next) {
        if (lost->fate != DROPPED || lost->turn > turn)
            continue;
        lost->fate = WAITING;
        flow->waiting++;
        flow->under_way -= lost->bytes;
        if (lost->begin >= flow->recovering)
            shrink(flow);
    }
}

static void alarm_rings(int number, void *unused);

static void set_alarm(int number)
{
    struct flow *flow = &network.flow[number];
    double wait = 2 * flow->round_trip + PROBE_PAUSE;
    if (flow->has_probed || flow->under_way <= SEGMENT || wait > retransmission_timeout)
        wait = retransmission_timeout;
    if (!flow->has_alarm || agenda.now + wait < flow->due)
        note(agenda.now + wait, alarm_rings, number, NULL);
    flow->has_alarm = true;
    flow->due = agenda.now + wait;
}

/* Nothing came back for too long: send the last segment again, at the next time all of them. */
static void alarm_rings(int number, void *unused)
{
    struct flow *flow = &network.flow[number];
    struct segment *last = NULL;
    (void)unused;
    if (agenda.now < flow->due) {
        note(flow->due, alarm_rings, number, NULL);
        return;
    }
    flow->has_alarm = false;
    for (struct segment *lost = flow->missing; lost; lost = lost->next)
        if (lost->fate == DROPPED && (!last || lost->turn > last->turn))
            last = lost;
    if (!last) { /* what is under way may still be dropped */
        if (flow->under_way > 0)
            set_alarm(number);
        return;
    }
    if (!flow->has_probed && flow->under_way > SEGMENT) {
        flow->has_probed = true;
        last->fate = WAITING;
        flow->waiting++;
        flow->under_way -= last->bytes;
    } else {
        network.timeouts++;
        notice_losses(flow, flow->turn);
        flow->window = SEGMENT;
        flow->has_probed = false;
    }
    send_more(number);
}

/* ---- segments ------------------------------------------------------------------------------ */

/* An acknowledgement has come. */
static void confirm(int number, void *what)
{
    struct flow *flow = &network.flow[number];
    struct segment *segment = (struct segment *)what;
    double took = agenda.now - segment->left;
    flow->round_trip += (took - flow->round_trip) / (flow->round_trip > 0 ? 8 : 1);
    flow->under_way -= segment->bytes;
    if (segment->turn > flow->confirmed)
        flow->confirmed = segment->turn;
    if (flow->is_limited)
        flow->window += flow->window < flow->threshold
                            ? segment->bytes
                            : (double)SEGMENT * segment->bytes / flow->window;
    flow->is_limited = false;
    flow->has_probed = false;
    free_segment(segment);
    notice_losses(flow, flow->confirmed);
    flow->acknowledged = arrived(flow);
    if (flow->under_way > 0)
        set_alarm(number);
    send_more(number);
    flow_progressed(number);
}

/* A segment has arrived at the last host. */
static void arrive(int number, void *what)
{
    struct flow *flow = &network.flow[number];
    struct segment *segment = (struct segment *)what;
    double back = agenda.now;
    struct segment **place = &flow->missing;
    if (segment->is_missing) {
        while (*place != segment)
            place = &(*place)->next;
        *place = segment->next;
        segment->is_missing = false;
    }
    if (segment->begin + segment->bytes > flow->highest)
        flow->highest = segment->begin + segment->bytes;
    for (int i = 0; i < flow->hops; i++)
        back += (queued(flow->back[i]) + WIRE) / flow->back[i]->rate;
    flow->unanswered = (flow->unanswered + 1) % SEGMENTS_A_REPLY;
    for (int i = 0; flow->unanswered == 0 && i < flow->hops; i++)
        pass(flow->back[i], WIRE);
    note(back, confirm, number, segment);
    flow_progressed(number);
}

/* A segment has left a port. */
static void hop(int number, void *what)
{
    struct flow *flow = &network.flow[number];
    struct segment *segment = (struct segment *)what;
    if (segment->hop == 1) {
        flow->in_nic--;
        send_more(number);
    }
    if (segment->hop == flow->hops) {
        work_beside(number, flow->work, arrive, segment);
        return;
    }
    struct port *port = flow->path[segment->hop++];
    double bytes = segment->bytes + WIRE;
    if (port->buffer > 0 && !network.is_lossless && queued(port) + bytes > port->buffer)
        drop(flow, segment);
    else
        note(pass(port, bytes), hop, number, segment);
}

/* A flow that was idle forgets half of its window for each time-out, down to the first one. */
static void wake_flow(struct flow *flow)
{
    double idle = agenda.now - flow->latest;
    for (; idle > retransmission_timeout && flow->window > FIRST_WINDOW * SEGMENT;
         idle -= retransmission_timeout)
        flow->window /= 2;
    if (flow->window < FIRST_WINDOW * SEGMENT)
        flow->window = FIRST_WINDOW * SEGMENT;
}

/* Send what the window and the host's own queue allow; what was lost comes first. */
static void send_more(int number)
{
    struct flow *flow = &network.flow[number];
    if (flow->under_way <= 0 && flow->waiting == 0 &&
        agenda.now > flow->latest + retransmission_timeout)
        wake_flow(flow);
    while (flow->in_nic < IN_NIC && (flow->waiting > 0 || flow->next < flow->written)) {
        struct segment *segment = flow->missing;
        if (flow->under_way > 0 && flow->under_way + SEGMENT > flow->window) {
            flow->is_limited = true;
            return;
        }
        if (flow->waiting > 0) {
            while (segment->fate != WAITING)
                segment = segment->next;
            flow->waiting--;
            network.resent++;
        } else {
            long left = flow->written - flow->next;
            segment = new_segment(flow->next, (int)(left < SEGMENT ? left : SEGMENT));
            flow->next += segment->bytes;
        }
        segment->fate = FLYING;
        segment->turn = ++flow->turn;
        segment->hop = 1;
        segment->left = flow->latest = agenda.now;
        flow->under_way += segment->bytes;
        flow->in_nic++;
        note(pass(flow->path[0], segment->bytes + WIRE), hop, number, segment);
        set_alarm(number);
    }
}

#endif
