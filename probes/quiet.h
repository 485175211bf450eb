/*
 * Is anybody else at work? While all ranks are idle, every host looks at its network interfaces,
 * at the tasks that want a processor, and at the time that a fixed piece of work takes (Linux).
 */
#ifndef QUIET_H
#define QUIET_H

#include "harness.h"

#include <glob.h>
#include <math.h>

enum { QUIET_LOOKS = 5, QUIET_TRIES = 5, QUIET_WORK = 20000 };

/* Bytes in and out of all interfaces that are a device of their own; 0 where nothing is known. */
static inline double quiet_bytes(void)
{
    char line[512], name[64];
    double in, out, sum = 0;
    FILE *file = fopen("/proc/self/net/dev", "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, " %63[^:]: %lf %*f %*f %*f %*f %*f %*f %*f %lf", name, &in, &out) == 3 &&
            strcmp(name, "lo") != 0)
            sum += in + out;
    fclose(file);
    return sum;
}

/* How often links of this host went down or up. */
static inline double quiet_carrier(void)
{
    glob_t found;
    double sum = 0, changes;
    if (glob("/sys/class/net/*/carrier_changes", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");
        if (file && fscanf(file, "%lf", &changes) == 1)
            sum += changes;
        if (file)
            fclose(file);
    }
    globfree(&found);
    return sum;
}

/* Tasks that run or want to, this one not counted. */
static inline int quiet_tasks(void)
{
    int running = 1;
    FILE *file = fopen("/proc/loadavg", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*f %*f %*f %d/", &running) != 1)
        running = 1;
    fclose(file);
    return running - 1;
}

/* Ticks that this machine's processors had so far, and of these what the hypervisor gave to others
 * (steal); 0 where nothing is known. */
static inline void quiet_ticks(double *all, double *stolen)
{
    double tick[8] = { 0 };
    FILE *file = fopen("/proc/stat", "r");
    *all = *stolen = 0;
    if (!file)
        return;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &tick[0], &tick[1], &tick[2], &tick[3],
               &tick[4], &tick[5], &tick[6], &tick[7]) == 8) {
        for (int i = 0; i < 8; i++)
            *all += tick[i];
        *stolen = tick[7];
    }
    fclose(file);
}

/* Seconds of a fixed piece of work, the best of several: how fast this processor is now. */
static inline double quiet_work(void)
{
    double best = 1;
    for (int i = 0; i < QUIET_TRIES; i++) {
        volatile unsigned value = 1;
        double begin = local_now(), took;
        for (int j = 0; j < QUIET_WORK; j++)
            value = value * 1664525u + 1013904223u;
        took = local_now() - begin;
        best = took < best ? took : best;
    }
    return best;
}

/* Sleep; how many seconds later than it should the process woke. */
static inline double quiet_sleep(double seconds)
{
    double begin = local_now();
    nanosleep(&(struct timespec){ 0, (long)(1e9 * seconds) }, NULL);
    return local_now() - begin - seconds;
}

/* Answer {"bytes": [a second], "tasks": [at the least], "spare": [processors without a rank],
 * "carrier": [changes], "work": [seconds], "ticks": [so far], "stolen": [of these], "woke":
 * [seconds late, at the most]}, one entry for each rank; only those that speak for a host know, the
 * others say -1. */
static inline void quiet_answer(double seconds)
{
    static const char *const names[] = { "bytes", "tasks", "spare",  "carrier",
                                         "work",  "ticks", "stolen", "woke" };
    enum { SEEN = sizeof names / sizeof names[0] };
    const size_t entries = SEEN * (size_t)team.ranks;
    double *all = (double *)malloc(entries * sizeof *all);
    require(all != NULL, "no memory");
    for (size_t i = 0; i < entries; i++)
        all[i] = -1;
    harness_barrier();
    quiet_sleep(seconds / 4); /* what is under way may end */
    if (team.speaks_for_host) {
        double before = quiet_bytes(), begin = local_now(), tasks = HUGE_VAL, woke = 0;
        double ticks, stolen;
        for (int i = 0; i < QUIET_LOOKS; i++) {
            /* hosts that share a machine take turns */
            double unlike = 0.618 * team.rank + 0.382 * i;
            woke = fmax(woke, quiet_sleep(seconds / QUIET_LOOKS * (0.5 + unlike - floor(unlike))));
            tasks = fmin(tasks, quiet_tasks());
        }
        quiet_ticks(&ticks, &stolen);
        const double seen[SEEN] = {
            (quiet_bytes() - before) / (local_now() - begin),
            tasks,
            fmax(0, (double)sysconf(_SC_NPROCESSORS_ONLN) - team.ranks_on_host),
            quiet_carrier(),
            quiet_work(),
            ticks,
            stolen,
            woke,
        };
        for (int i = 0; i < SEEN; i++)
            all[i * team.ranks + team.rank] = seen[i];
    } else {
        quiet_sleep(seconds);
    }
    quiet_sleep(seconds); /* nobody's barrier while others still look */
    harness_barrier();
    PMPI_Allreduce(MPI_IN_PLACE, all, (int)entries, MPI_DOUBLE, MPI_MAX, team.harness);
    for (int i = 0; team.rank == 0 && i < SEEN; i++) {
        printf("%s", i ? ", " : "atall: {");
        print_list(names[i], all + i * team.ranks, team.ranks);
    }
    if (team.rank == 0)
        printf("}\n");
    free(all);
}

#endif
