/*
 * One dry run of each body: what it sends, counted. The emitted file calls the PMPI routines below
 * instead of the library's: nothing travels, every message is there at once.
 *
 *     dry_run RANKS BLOCK LABEL...
 *
 * prints a line for each label: the largest numbers over all ranks of messages sent, of bytes
 * sent, of messages and of bytes received, of sent and received ones together (each of the two
 * again), of tokens sent, and of the library's barriers; then a hash of every call that passes a
 * message or waits, in its order, with peer, tag and bytes. All ranks hang off one switch.
 */
#include ATALL_SOURCE

#include <inttypes.h>

struct counted {
    long sent, sent_bytes, received, received_bytes, both, both_bytes, tokens, barriers;
};

static struct counted now;
static int
    made_bytes; /* of the one derived type that there is at a time, which is called MPI_INT */

static uint64_t trace; /* FNV-1a of all calls so far */

static void note(char call, int peer, int tag, long bytes)
{
    const long words[] = { call, peer, tag, bytes };
    for (int i = 0; i < 4; i++)
        trace = (trace ^ (uint64_t)words[i]) * 0x100000001b3U;
}

static long bytes_of(int count, MPI_Datatype type)
{
    return (long)count * (type == MPI_BYTE ? 1 : made_bytes);
}

static int count_send(int count, MPI_Datatype type, int to, int tag)
{
    if (count < 0)
        abort();
    note('s', to, tag, bytes_of(count, type));
    if (to == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (tag == ATALL_TAG_BLOCK) {
        now.sent++;
        now.sent_bytes += bytes_of(count, type);
    } else if (tag != ATALL_TAG_OWN) {
        now.tokens++;
    }
    return MPI_SUCCESS;
}

static int count_receive(int count, MPI_Datatype type, int from, int tag)
{
    note('r', from, tag, bytes_of(count, type));
    if (from != MPI_PROC_NULL && tag == ATALL_TAG_BLOCK) {
        now.received++;
        now.received_bytes += bytes_of(count, type);
    }
    return MPI_SUCCESS;
}

static void begin(MPI_Request *request)
{
    memset(request, 0x5a, sizeof *request);
}

int PMPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    (void)buffer, (void)comm;
    begin(request);
    return count_send(count, type, to, tag);
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    (void)buffer, (void)comm;
    begin(request);
    return count_receive(count, type, from, tag);
}

int PMPI_Send(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    (void)buffer, (void)comm;
    return count_send(count, type, to, tag);
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    (void)buffer, (void)comm, (void)status;
    return count_receive(count, type, from, tag);
}

int PMPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                  void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                  MPI_Status *status)
{
    (void)out, (void)in, (void)comm, (void)status;
    count_send(out_count, out_type, to, out_tag);
    return count_receive(in_count, in_type, from, in_tag);
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    (void)status;
    note('w', 1, 0, 0);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int PMPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    (void)statuses;
    note('w', count, 0, 0);
    for (int i = 0; i < count; i++)
        requests[i] = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int PMPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    (void)status;
    note('a', count, 0, 0);
    for (*index = 0; *index < count; ++*index)
        if (requests[*index] != MPI_REQUEST_NULL) {
            requests[*index] = MPI_REQUEST_NULL;
            return MPI_SUCCESS;
        }
    *index = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

int PMPI_Barrier(MPI_Comm comm)
{
    (void)comm;
    note('b', 0, 0, 0);
    now.barriers++;
    return MPI_SUCCESS;
}

int PMPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype *made)
{
    made_bytes = (int)bytes_of(count, type);
    *made = MPI_INT;
    return MPI_SUCCESS;
}

int PMPI_Type_create_indexed_block(int count, int length, const int *places, MPI_Datatype type,
                                   MPI_Datatype *made)
{
    (void)places;
    return PMPI_Type_contiguous(count * length, type, made);
}

int PMPI_Type_commit(MPI_Datatype *type)
{
    (void)type;
    return MPI_SUCCESS;
}

int PMPI_Type_free(MPI_Datatype *type)
{
    (void)type;
    return MPI_SUCCESS;
}

static void *obtain(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        abort();
    return memory;
}

static long larger(long a, long b)
{
    return a > b ? a : b;
}

static struct counted largest(struct counted a, struct counted b)
{
    return (struct counted){
        larger(a.sent, b.sent),         larger(a.sent_bytes, b.sent_bytes),
        larger(a.received, b.received), larger(a.received_bytes, b.received_bytes),
        larger(a.both, b.both),         larger(a.both_bytes, b.both_bytes),
        larger(a.tokens, b.tokens),     larger(a.barriers, b.barriers),
    };
}

/* What one rank of p does with a row; the draft has the plan of all. */
static struct counted run(const struct atall_row *row, const struct atall_draft *draft, int rank,
                          int p, size_t n)
{
    const struct atall_body *body = &atall_bodies[row->body];
    struct atall_schedule schedule = { 0 };
    size_t memory = body->scratch ? body->scratch((size_t)p, n, &row->values) : 0;
    char *out = (char *)obtain(p * n), *in = (char *)obtain(p * n);
    if (!atall_make_schedule(draft, rank, &schedule))
        abort();
    schedule.request = (MPI_Request *)obtain((size_t)schedule.requests * sizeof(MPI_Request));
    const struct atall_call call = {
        .sendbuf = out,
        .recvbuf = in,
        .sendcount = (int)n,
        .recvcount = (int)n,
        .sendtype = MPI_BYTE,
        .recvtype = MPI_BYTE,
        .send_stride = (MPI_Aint)n,
        .recv_stride = (MPI_Aint)n,
        .send_plain = true,
        .recv_plain = true,
        .block_bytes = n,
        .comm = MPI_COMM_WORLD,
        .rank = rank,
        .ranks = p,
        .number = rank,
        .requests = (MPI_Request *)obtain((size_t)(64 + 2 * p) * sizeof(MPI_Request)),
        .scratch = (char *)obtain(memory),
        .has_scratch = true,
        .schedule = &schedule,
        .values = row->values,
    };
    now = (struct counted){ 0 };
    if (body->run(&call) != MPI_SUCCESS)
        abort();
    now.both = now.sent + now.received;
    now.both_bytes = now.sent_bytes + now.received_bytes;
    free(call.requests);
    free(call.scratch);
    free(schedule.to);
    free(schedule.request);
    free(out);
    free(in);
    return now;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const int p = atoi(argv[1]), nodes = p + 1;
    const size_t n = (size_t)atol(argv[2]);
    struct atall_node *node = (struct atall_node *)obtain((size_t)nodes * sizeof *node);
    int *home = (int *)obtain((size_t)p * sizeof *home);
    struct atall_draft draft;
    for (int i = 0; i < nodes; i++)
        node[i] = (struct atall_node){ i ? 0 : -1, 1 };
    for (int r = 0; r < p; r++)
        home[r] = r + 1;
    const struct atall_layout at = { node, nodes, home, p };
    if (!atall_make_draft(&at, &draft))
        abort();
    for (int i = 3; i < argc; i++) {
        struct atall_row row = { .most = SIZE_MAX };
        struct counted most = { 0 };
        if (!atall_parse_label(argv[i], &row))
            return 2;
        trace = 0xcbf29ce484222325U;
        for (int rank = 0; rank < p; rank++)
            most = largest(most, run(&row, &draft, rank, p, n));
        printf("%ld %ld %ld %ld %ld %ld %ld %ld %016" PRIx64 "\n", most.sent, most.sent_bytes,
               most.received, most.received_bytes, most.both, most.both_bytes, most.tokens,
               most.barriers, trace);
    }
    atall_free_draft(&draft);
    free(node);
    free(home);
    return 0;
}
