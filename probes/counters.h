/*
 * TCP's own counters, of the network namespace that the process lives in (Linux).
 */
#ifndef ATALL_COUNTERS_H
#define ATALL_COUNTERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counters {
    long retransmissions; /* segments sent again */
    long timeouts;        /* retransmission time-outs: 200 ms and more each */
};

/* The value of one column of /proc/net/{snmp,netstat}: a line of names, then one of values. */
static inline long counters_read_one(const char *path, const char *prefix, const char *column)
{
    char names[8192], values[8192];
    char *name_rest, *value_rest;
    size_t length = strlen(prefix);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(names, sizeof names, file) && fgets(values, sizeof values, file)) {
        if (strncmp(names, prefix, length) != 0)
            continue;
        char *name = strtok_r(names, " \n", &name_rest);
        char *value = strtok_r(values, " \n", &value_rest);
        while (name && value && strcmp(name, column) != 0) {
            name = strtok_r(NULL, " \n", &name_rest);
            value = strtok_r(NULL, " \n", &value_rest);
        }
        fclose(file);
        return name && value ? atol(value) : 0;
    }
    fclose(file);
    return 0;
}

static inline struct counters counters_read(void)
{
    struct counters now = {
        counters_read_one("/proc/self/net/snmp", "Tcp:", "RetransSegs"),
        counters_read_one("/proc/self/net/netstat", "TcpExt:", "TCPTimeouts"),
    };
    return now;
}

#endif
