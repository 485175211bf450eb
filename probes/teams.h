/*
 * Who is at work: all ranks, the first so many, or the communicators of a process grid.
 */
#ifndef TEAMS_H
#define TEAMS_H

#include "clocks.h"
#include "forced.h"
#include "harness.h"

enum { MOST_TEAMS = 32 };

static struct team teams[MOST_TEAMS]; /* the first is all ranks */
static int teams_made;
static int rows, columns; /* of the process grid, if there is one */

/* Rank 0: print the rankings that number the ranks of a communicator in a way of their own, and
 * the phases that are planned for its own. Only where ATALL_SOURCE has every algorithm has it these
 * for sure. */
static void print_plans(void)
{
    int own[2] = { 0, 0 }; /* switch, interleaved */
#ifdef ATALL_EVERY
    struct atall_state *state = team.mine[0].state;
    require(atall_set_up_schedule(state, state->comm) == MPI_SUCCESS, "no plan");
    for (int i = 0; i < team.count; i++) {
        const int *order = team.mine[i].state->rankings.order, ranks = team.peers;
        int by_switch = 0, interleaved = 0;
        for (int j = 0; order && j < ranks; j++) {
            by_switch |= order[j] != j;
            interleaved |= order[ranks + j] != j;
        }
        own[0] |= by_switch;
        own[1] |= interleaved && memcmp(order, order + ranks, (size_t)ranks * sizeof *order) != 0;
    }
#endif
    PMPI_Allreduce(MPI_IN_PLACE, own, 2, MPI_INT, MPI_MAX, team.harness);
    if (team.rank != 0)
        return;
#ifdef ATALL_EVERY
    const struct atall_schedule *schedule = &state->schedule;
    printf("\"phases\": %d, \"over_bound\": %.4f, ", schedule->phases,
           schedule->bound ? (double)schedule->ticks / (double)schedule->bound : 1.0);
#endif
    printf("\"rankings\": [\"index\"%s%s], ", own[0] ? ", \"switch\"" : "",
           own[1] ? ", \"interleaved\"" : "");
}

static void print_library(void)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\r\n")] = '\0';
    printf("\"library\": \"");
    for (const char *c = library; *c; c++)
        putchar(*c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c);
    printf("\"");
}

/* Who the team is: the library, each rank's host, what is planned, what can be forced. Settles
 * which ranks speak for their hosts. */
static void introduce(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", *names;
    int length;
    MPI_Get_processor_name(name, &length);
    names = (char *)calloc((size_t)team.ranks, sizeof name);
    require(names != NULL, "no memory");
    PMPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, team.harness);
    team.speaks_for_host = 1;
    team.ranks_on_host = 0;
    for (int i = 0; i < team.ranks; i++) {
        int is_here = strcmp(names + (size_t)i * sizeof name, name) == 0;
        team.ranks_on_host += is_here;
        if (is_here && i < team.rank)
            team.speaks_for_host = 0;
    }
    if (team.rank == 0) {
        printf("atall: {");
        print_library();
        printf(", \"hosts\": [");
        for (int i = 0; i < team.ranks; i++)
            printf("%s\"%s\"", i ? ", " : "", names + (size_t)i * sizeof name);
        printf("], ");
    }
    print_plans();
    if (team.rank == 0) {
        printf("\"forced\": [");
        forced_print();
        printf("]}\n");
    }
    free(names);
}

/* All ranks of the team: the communicator of those of one color, with its state. */
static void make_communicator(struct team *made, int color)
{
    struct communicator *one = &made->mine[made->count++];
    struct atall_process *process;
    MPI_Comm_split(made->harness, color, 0, &one->comm);
    MPI_Comm_set_errhandler(one->comm, MPI_ERRORS_RETURN);
    MPI_Comm_size(one->comm, &made->peers);
    require(atall_get_process(&process) == MPI_SUCCESS &&
                atall_make_state(process, one->comm, &one->state) == MPI_SUCCESS &&
                !one->state->unserved,
            "the communicator's state could not be made");
}

/* How many ranks a list of numbers and ranges has below one, such as 0-3,8,9; 0: it is no list of
 * ranks that grow. */
static int count_members(const char *list, int below)
{
    int count = 0, last = -1;
    for (const char *at = list; *at;) {
        char *end;
        long first = strtol(at, &end, 10), to = first;
        if (end == at)
            return 0;
        if (*end == '-') {
            at = end + 1;
            to = strtol(at, &end, 10);
            if (end == at)
                return 0;
        }
        if (first <= last || to < first || to > INT_MAX || (*end && *end != ','))
            return 0;
        for (long rank = first; rank <= to && rank < below; rank++)
            count++;
        last = (int)to;
        at = *end ? end + 1 : end;
    }
    return count;
}

static int is_member(const char *list, int rank)
{
    return count_members(list, rank + 1) > count_members(list, rank);
}

/* All ranks of the job: make the team of the first so many of them, of some, or of a grid's
 * communicators of so many, once. */
static void make_team(int ranks, const char *members)
{
    struct team *made = &teams[teams_made++];
    int first = rows ? rows * columns : ranks;
    int takes_part =
        made == teams || (*members ? is_member(members, teams[0].rank) : teams[0].rank < first);
    snprintf(made->members, sizeof made->members, "%s", members);
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, 0, &made->harness);
    made->rank = teams[0].rank;
    made->peers = ranks;
    if (!takes_part)
        return;
    MPI_Comm_rank(made->harness, &made->rank);
    MPI_Comm_size(made->harness, &made->ranks);
    if (!rows)
        make_communicator(made, 0);
    if (rows && ranks == columns)
        make_communicator(made, made->rank / columns);
    if (rows && ranks == rows)
        make_communicator(made, made->rank % columns);
}

static void choose_team(int ranks, const char *members)
{
    int i = rows > 0; /* the first is no team of a grid */
    while (i < teams_made && (teams[i].peers != ranks || strcmp(teams[i].members, members) != 0))
        i++;
    if (i == teams_made)
        make_team(ranks, members);
    team = teams[i];
    clocks_forget();
    if (team.harness != MPI_COMM_NULL) {
        introduce();
        teams[i] = team;
    }
}

static void choose_grid(int of_rows, int of_columns)
{
    rows = of_rows;
    columns = of_columns;
    if (teams[0].rank == 0)
        printf("atall: {\"grid\": [%d, %d]}\n", rows, columns);
}

#endif
