/*
 * Who is next to whom: in the order of a communicator's switches where that is known, so that no
 * cable is crossed twice when every rank sends to the next one.
 */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

/* The ranks behind and before one of p; ``rankings`` are the emitted file's (the rank of each
 * number comes first, the number of each rank behind two of these), or NULL. */
static inline void neighbours_of(const int *rankings, int p, int rank, int *to, int *from)
{
    const int number = rankings ? rankings[2 * p + rank] : rank;
    *to = (number + 1) % p;
    *from = (number - 1 + p) % p;
    if (rankings) {
        *to = rankings[*to];
        *from = rankings[*from];
    }
}

#endif
