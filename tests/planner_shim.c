/* The planner of emitted files as a library, for tests to call. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include PLANNER

bool make_plan(const struct atall_node *node, int nodes, const int *home, int ranks,
               struct atall_plan *plan);
bool make_order(const struct atall_node *node, int nodes, const int *home,
                const struct atall_plan *plan, int depth, struct atall_order *order);
void free_plan(struct atall_plan *plan, struct atall_order *order);

bool make_plan(const struct atall_node *node, int nodes, const int *home, int ranks,
               struct atall_plan *plan)
{
    return atall_make_plan(node, nodes, home, ranks, plan);
}

bool make_order(const struct atall_node *node, int nodes, const int *home,
                const struct atall_plan *plan, int depth, struct atall_order *order)
{
    return atall_make_order(node, nodes, home, plan, depth, order);
}

void free_plan(struct atall_plan *plan, struct atall_order *order)
{
    atall_free_plan(plan);
    free(order->before);
}
