/*
 * The library's own all-to-all algorithms, forced one at a time through MPI_T control variables.
 * Only MPICH has these; with another library, or where they are gone, there is nothing to force.
 */
#ifndef FORCED_H
#define FORCED_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define FORCED_ALGORITHM "MPIR_CVAR_ALLTOALL_INTRA_ALGORITHM"
#define FORCED_THROTTLE "MPIR_CVAR_ALLTOALL_THROTTLE"

enum { FORCED_TEXT = 4096, FORCED_NAME = 64, FORCED_AUTO = 0 };

/* What to force: the place of an algorithm in the list that describes the variable, and how many
 * messages it may have under way; 0: as the library likes. */
struct forced {
    int algorithm, throttle;
};

static const int forced_throttles[] = { 1, 2, 4, 8 };

static MPI_T_cvar_handle forced_algorithm, forced_throttle;
static char forced_text[FORCED_TEXT];
static int forced_usual_throttle;
static int forced_works;

static inline int forced_open(const char *name, char *text, MPI_T_cvar_handle *handle)
{
    int index, count, verbosity, bind, scope, bytes = FORCED_TEXT;
    MPI_Datatype type;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_get_info(index, NULL, NULL, &verbosity, &type, NULL, text, &bytes, &bind,
                            &scope) != MPI_SUCCESS ||
        type != MPI_INT)
        return 0;
    return MPI_T_cvar_handle_alloc(index, NULL, handle, &count) == MPI_SUCCESS && count == 1;
}

/* Call after MPI_Init. */
static inline void forced_start(void)
{
    char unused[FORCED_TEXT];
    int level;
    forced_works = MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS &&
                   forced_open(FORCED_ALGORITHM, forced_text, &forced_algorithm) &&
                   forced_open(FORCED_THROTTLE, unused, &forced_throttle) &&
                   MPI_T_cvar_read(forced_throttle, &forced_usual_throttle) == MPI_SUCCESS;
}

/* The name of the algorithm at a place: the description has a line "name - what it does" for each;
 * 0 behind the last. */
static inline int forced_name(int place, char *name)
{
    for (const char *line = strchr(forced_text, '\n'); forced_works && line;
         line = strchr(line + 1, '\n'))
        if (place-- == 0)
            return sscanf(line + 1, "%63[a-z_0-9] -", name) == 1;
    return 0;
}

/* Parse "", ":NAME" or ":NAME:THROTTLE"; 0 if that is nothing that can be forced. */
static inline int forced_parse(const char *text, struct forced *forced)
{
    char wanted[FORCED_NAME], name[FORCED_NAME];
    *forced = (struct forced){ FORCED_AUTO, 0 };
    if (!*text)
        return 1;
    if (sscanf(text, ":%63[a-z_0-9]:%d", wanted, &forced->throttle) < 1)
        return 0;
    for (int place = 0; forced_name(place, name); place++)
        if (strcmp(name, wanted) == 0) {
            forced->algorithm = place;
            return forced->throttle >= 0;
        }
    return 0;
}

/* Call before MPI_Finalize. */
static inline void forced_end(void)
{
    MPI_T_finalize();
}

/* From now on the library does as told; on all ranks alike. */
static inline void forced_apply(struct forced forced)
{
    if (!forced_works)
        return;
    int throttle = forced.throttle ? forced.throttle : forced_usual_throttle;
    MPI_T_cvar_write(forced_algorithm, &forced.algorithm);
    MPI_T_cvar_write(forced_throttle, &throttle);
}

/* Print what can be forced as a list of JSON strings: every algorithm but the automatic choice and
 * the one that serves only MPI_IN_PLACE, and "scattered" with each throttle. */
static inline void forced_print(void)
{
    char name[FORCED_NAME];
    const char *comma = "";
    for (int place = FORCED_AUTO + 1; forced_name(place, name); place++) {
        if (strstr(name, "replace"))
            continue;
        printf("%s\"library:%s\"", comma, name);
        comma = ", ";
        if (strcmp(name, "scattered") != 0)
            continue;
        for (size_t i = 0; i < sizeof forced_throttles / sizeof forced_throttles[0]; i++)
            printf(", \"library:%s:%d\"", name, forced_throttles[i]);
    }
}

#endif
