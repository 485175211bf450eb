/*
 * What a preloaded function stands in front of.
 */
#ifndef NEXT_H
#define NEXT_H

#include <dlfcn.h>
#include <string.h>

/* Let a pointer be the next definition of a function; NULL if there is none. */
#define FIND_NEXT(pointer, name)                                                                   \
    do {                                                                                           \
        void *symbol_ = dlsym(RTLD_NEXT, name);                                                    \
        memcpy(&(pointer), &symbol_, sizeof symbol_);                                              \
    } while (0)

#endif
