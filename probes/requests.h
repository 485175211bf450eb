/*
 * Requests: a line of words into `request`, true if they are what the verb takes.
 */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "barriers.h"
#include "targets.h"
#include "teams.h"

enum { LINE = 4096 };

static int within(long value, long least, long most)
{
    return value >= least && value <= most;
}

static int parse_target(const char *label)
{
    static const char library[] = "library";
    request.target = strcmp(label, "generated") == 0                    ? GENERATED
                     : strncmp(label, library, sizeof library - 1) == 0 ? LIBRARY
                                                                        : VARIANT;
    request.collective = collective_of(label);
    request.row = (struct atall_row){ 0 };
    if (request.target == LIBRARY)
        return forced_parse(label + sizeof library - 1, &request.forced);
    return request.target != VARIANT || (atall_parse_label(label, &request.row) &&
                                         atall_body_serves(request.row.body, team.mine[0].state));
}

static int are_two_ranks(int from, int to)
{
    return within(from, 0, team.ranks - 1) && within(to, 0, team.ranks - 1) && from != to;
}

/* The words behind a verb, into the request: true if they are what the verb takes. */
static int parse_verify(const char *line)
{
    char label[LINE];
    return sscanf(line, "%*s %s %ld", label, &request.size) == 2 && parse_target(label);
}

static int parse_time(const char *line)
{
    char label[LINE], scheme[LINE];
    if (sscanf(line, "%*s %s %ld %d %d %s", label, &request.size, &request.first, &request.second,
               scheme) != 5)
        return 0;
    for (request.scheme = 0; request.scheme < SCHEMES; request.scheme++)
        if (strcmp(scheme, scheme_names[request.scheme]) == 0)
            break;
    return request.scheme < SCHEMES && parse_target(label) &&
           within(request.first, 0, MOST_CALLS) && within(request.second, 1, MOST_CALLS);
}

static int parse_flow(const char *line)
{
    return sscanf(line, "%*s %d %d %ld", &request.first, &request.second, &request.size) == 3 &&
           are_two_ranks(request.first, request.second);
}

static int parse_size(const char *line)
{
    return sscanf(line, "%*s %ld", &request.size) == 1;
}

static int parse_pingpong(const char *line)
{
    return sscanf(line, "%*s %d %d %ld %d", &request.first, &request.second, &request.size,
                  &request.calls) == 4 &&
           are_two_ranks(request.first, request.second) && within(request.calls, 1, MOST_CALLS);
}

static int parse_barrier(const char *line)
{
    char kind[LINE];
    if (sscanf(line, "%*s %s %d", kind, &request.calls) != 2)
        return 0;
    for (request.first = 0; request.first < BARRIERS; request.first++)
        if (strcmp(kind, barriers[request.first].name) == 0)
            break;
    return request.first < BARRIERS && within(request.calls, 1, MOST_CALLS);
}

static int parse_calls(const char *line)
{
    return sscanf(line, "%*s %d", &request.calls) == 1 && within(request.calls, 1, MOST_CALLS);
}

static int parse_neighbours(const char *line)
{
    return sscanf(line, "%*s %ld %d", &request.size, &request.calls) == 2 &&
           within(request.calls, 1, MOST_CALLS);
}

static int parse_delayed(const char *line)
{
    return sscanf(line, "%*s %d %d %ld %d %d", &request.first, &request.second, &request.size,
                  &request.delay, &request.calls) == 5 &&
           are_two_ranks(request.first, request.second) && within(request.calls, 1, MOST_CALLS) &&
           within(request.delay, 0, 1000000);
}

static int parse_burst(const char *line)
{
    return sscanf(line, "%*s %d %ld %d", &request.first, &request.size, &request.calls) == 3 &&
           within(request.first, 1, team.ranks - 1) && within(request.calls, 1, MOST_CALLS);
}

static int parse_copies(const char *line)
{
    return sscanf(line, "%*s %ld %d %d", &request.size, &request.calls, &request.first) == 3 &&
           within(request.calls, 1, MOST_CALLS);
}

/* A number of ranks, or which ones: a list of two numbers and more, or of ranges. */
static int parse_ranks(const char *line)
{
    char words[MEMBERS];
    if (sscanf(line, "%*s %1023s", words) != 1 || teams_made == MOST_TEAMS)
        return 0;
    if (strpbrk(words, "-,")) {
        memcpy(request.members, words, sizeof words);
        request.first = count_members(words, teams[0].ranks);
        return request.first > 0 && !rows;
    }
    request.first = atoi(words);
    return within(request.first, 1, teams[0].ranks) &&
           (!rows || request.first == rows || request.first == columns);
}

static int parse_grid(const char *line)
{
    return sscanf(line, "%*s %d %d", &request.first, &request.second) == 2 &&
           within(request.first, 1, teams[0].ranks) &&
           within(request.second, 1, teams[0].ranks / request.first) && teams_made == 1;
}

#endif
