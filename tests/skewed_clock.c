/*
 * For tests (LD_PRELOAD): the monotonic clock of each rank is ahead by ATALL_SKEW seconds for each
 * rank before it, and faster by ATALL_DRIFT for each.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double setting(const char *name)
{
    const char *text = getenv(name), *rank = getenv("PMI_RANK");
    return text && rank ? atof(text) * atoi(rank) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static double skew, drift, base;
    static int known;
    int result = (int)syscall(SYS_clock_gettime, clock, t);
    if (clock != CLOCK_MONOTONIC || result != 0)
        return result;
    double now = (double)t->tv_sec + 1e-9 * (double)t->tv_nsec;
    if (!known) {
        skew = setting("ATALL_SKEW");
        drift = setting("ATALL_DRIFT");
        base = now;
        known = 1;
    }
    now += skew + drift * (now - base);
    t->tv_sec = (time_t)now;
    t->tv_nsec = (long)(1e9 * (now - (double)t->tv_sec));
    return 0;
}
