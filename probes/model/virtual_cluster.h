/*
 * The cluster in virtual time: its tree, and the ports from each rank to each other.
 */
#ifndef VIRTUAL_CLUSTER_H
#define VIRTUAL_CLUSTER_H

#include "virtual_messages.h"

enum { MOST_NODES = 65536 };

static struct {
    int parent;
    struct port up, down; /* of its cable: away from it, and towards it */
} nodes[MOST_NODES];
static int node_count;

static int depth_of(int node)
{
    int depth = 0;
    while ((node = nodes[node].parent) >= 0)
        depth++;
    return depth;
}

/* The ports from one node to another, up to where they meet and down again. */
static int find_path(int from, int to, struct port **path)
{
    struct port *downwards[MOST_HOPS];
    int hops = 0, below = 0;
    while (from != to) {
        if (hops + below == MOST_HOPS)
            give_up("the tree is too deep");
        if (depth_of(from) >= depth_of(to)) {
            path[hops++] = &nodes[from].up;
            from = nodes[from].parent;
        } else {
            downwards[below++] = &nodes[to].down;
            to = nodes[to].parent;
        }
    }
    while (below > 0)
        path[hops++] = downwards[--below];
    return hops;
}

static void make_flows(void)
{
    size_t pairs = (size_t)world.ranks * (size_t)world.ranks;
    network.flow = (struct flow *)obtain(pairs * sizeof *network.flow);
    world.mail = (struct mail *)obtain(pairs * sizeof *world.mail);
    for (int from = 0; from < world.ranks; from++)
        for (int to = 0; to < world.ranks; to++) {
            struct port *path[MOST_HOPS];
            struct flow *flow = &network.flow[flow_between(from, to)];
            struct mail *mail = &world.mail[flow_between(from, to)];
            mail->last = &mail->first;
            mail->departed = &mail->leaving;
            flow->hops = find_path(world.rank[from].node, world.rank[to].node, path);
            flow->path = (struct port **)obtain(2 * (size_t)flow->hops * sizeof *path);
            flow->back = flow->path + flow->hops;
            memcpy(flow->path, path, (size_t)flow->hops * sizeof *path);
            find_path(world.rank[to].node, world.rank[from].node, flow->back);
        }
}

#endif
