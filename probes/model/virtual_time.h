/*
 * Virtual time: what will happen, and when. Nothing here takes real time or depends on it, so that
 * the same questions have the same answers.
 */
#ifndef VIRTUAL_TIME_H
#define VIRTUAL_TIME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void happening(int number, void *what);

struct event {
    double at;
    unsigned long order; /* of those at the same time the one that was noted first */
    happening *happen;
    int number;
    void *what;
};

static struct {
    double now; /* seconds */
    struct event *heap;
    size_t count, room;
    unsigned long noted;
} agenda;

static inline void give_up(const char *why)
{
    fprintf(stderr, "simulate: %s\n", why);
    exit(1);
}

static inline void *obtain(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        give_up("no memory");
    return memory;
}

static inline bool is_earlier(const struct event *one, const struct event *other)
{
    return one->at != other->at ? one->at < other->at : one->order < other->order;
}

/* Let something happen at a time that is not past. */
static inline void note(double at, happening *happen, int number, void *what)
{
    struct event event = { at, agenda.noted++, happen, number, what };
    size_t i = agenda.count++;
    if (agenda.count > agenda.room) {
        agenda.room = agenda.room ? 2 * agenda.room : 1024;
        agenda.heap = (struct event *)realloc(agenda.heap, agenda.room * sizeof event);
        if (!agenda.heap)
            give_up("no memory");
    }
    for (; i > 0 && is_earlier(&event, &agenda.heap[(i - 1) / 2]); i = (i - 1) / 2)
        agenda.heap[i] = agenda.heap[(i - 1) / 2];
    agenda.heap[i] = event;
}

static inline struct event take_first(void)
{
    struct event first = agenda.heap[0], last = agenda.heap[--agenda.count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < agenda.count; i = child) {
        if (child + 1 < agenda.count && is_earlier(&agenda.heap[child + 1], &agenda.heap[child]))
            child++;
        if (!is_earlier(&agenda.heap[child], &last))
            break;
        agenda.heap[i] = agenda.heap[child];
    }
    agenda.heap[i] = last;
    return first;
}

/* Go on until nothing is left to happen. */
static inline void pass_time(void)
{
    while (agenda.count > 0) {
        struct event event = take_first();
        agenda.now = event.at;
        event.happen(event.number, event.what);
    }
}

#endif
