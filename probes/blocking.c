/*
 * Blocking progress, for emulated hosts only (LD_PRELOAD).
 *
 * MPI spins while it waits. On a real cluster every rank has a core to spin on; emulated
 * hosts share a few, and a spinning rank delays the one that has work by whole time slices,
 * which no real cluster does. Here a run of empty poll or epoll_wait calls with time-out 0
 * becomes one real wait on all the descriptors seen lately, ended at once by any socket.
 *
 * ATALL_BLOCKING_US sets the longest wait (microseconds, default 5000; 0 turns all this off):
 * results must not depend on it.
 */
#define _GNU_SOURCE
#include "next.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    EMPTY_RUN = 16,   /* empty calls in a row before we believe that the rank waits */
    YIELD_WEIGHT = 8, /* a call after sched_yield counts for so many: only waiting yields */
    SMALL_BYTES = 64, /* what is read in pieces so small may be several messages, */
    SMALL_WEIGHT = 8, /* each of which MPI hands out in another call that polls in vain */
    SMALL_MOST = 48,
    MOST_SEEN = 64
};

static __thread struct pollfd seen[MOST_SEEN];
static __thread nfds_t seen_count;
static __thread int empty_calls;
static __thread int yielded;

static __thread int small_reads; /* since the last wait, up to SMALL_MOST */

static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static ssize_t (*real_recv)(int, void *, size_t, int);
static long longest_us = 5000;

__attribute__((constructor)) static void blocking_start(void)
{
    const char *text = getenv("ATALL_BLOCKING_US");
    FIND_NEXT(real_epoll_wait, "epoll_wait");
    FIND_NEXT(real_poll, "poll");
    FIND_NEXT(real_recv, "recv");
    if (text)
        longest_us = atol(text);
}

static void remember(int fd, short events)
{
    nfds_t i = 0;
    while (i < seen_count && seen[i].fd != fd)
        i++;
    if (i == MOST_SEEN)
        i = 0;
    if (i == seen_count)
        seen_count++;
    seen[i] = (struct pollfd){ .fd = fd, .events = events };
}

/* Count an empty call; after a run of them wait for any descriptor. True if we waited. */
static int wait_after_run(void)
{
    empty_calls += yielded ? YIELD_WEIGHT : 1;
    yielded = 0;
    if (longest_us <= 0 || empty_calls < EMPTY_RUN + SMALL_WEIGHT * small_reads)
        return 0;
    small_reads = 0;
    struct timespec limit = { longest_us / 1000000, longest_us % 1000000 * 1000 };
    ppoll(seen, seen_count, &limit, NULL);
    nfds_t kept = 0;
    for (nfds_t i = 0; i < seen_count; i++)
        if (!(seen[i].revents & POLLNVAL))
            seen[kept++] = seen[i];
    seen_count = kept;
    return 1;
}

/* Who is about to wait for real need not yield. */
int sched_yield(void)
{
    yielded = 1;
    return longest_us > 0 ? 0 : (int)syscall(SYS_sched_yield);
}

ssize_t recv(int fd, void *buffer, size_t bytes, int flags)
{
    ssize_t got = real_recv(fd, buffer, bytes, flags);
    if (got > 0 && got <= SMALL_BYTES && small_reads < SMALL_MOST)
        small_reads++;
    return got;
}

int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    int n = real_epoll_wait(epfd, events, maxevents, timeout);
    if (timeout != 0)
        return n;
    if (n == 0) {
        remember(epfd, POLLIN);
        if (wait_after_run())
            n = real_epoll_wait(epfd, events, maxevents, 0);
    }
    if (n != 0)
        empty_calls = 0;
    return n;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    int n = real_poll(fds, nfds, timeout);
    if (timeout != 0)
        return n;
    if (n == 0) {
        for (nfds_t i = 0; i < nfds; i++)
            if (fds[i].fd >= 0)
                remember(fds[i].fd, fds[i].events);
        if (wait_after_run())
            n = real_poll(fds, nfds, 0);
    }
    if (n != 0)
        empty_calls = 0;
    return n;
}
