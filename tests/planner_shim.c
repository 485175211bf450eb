/* The planner of emitted files as a library, for tests to call. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include PLANNER

bool make_plan(const struct atall_layout *at, struct atall_plan *plan);
bool make_order(const struct atall_layout *at, const struct atall_plan *plan, int depth, int rank,
                struct atall_order *order);
void free_plan(struct atall_plan *plan, struct atall_order *order);

bool make_plan(const struct atall_layout *at, struct atall_plan *plan)
{
    return atall_make_plan(at, plan);
}

bool make_order(const struct atall_layout *at, const struct atall_plan *plan, int depth, int rank,
                struct atall_order *order)
{
    struct atall_queues queues;
    if (!atall_make_queues(at, plan, &queues))
        return false;
    bool made = atall_make_order(&queues, depth, rank, order);
    free(queues.first);
    return made;
}

void free_plan(struct atall_plan *plan, struct atall_order *order)
{
    atall_free_plan(plan);
    free(order->before);
}
