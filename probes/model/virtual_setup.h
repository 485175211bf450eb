/*
 * MPI in virtual time, where no time counts: what the first use of a communicator asks for. What
 * is handed over has contents here.
 */
#ifndef VIRTUAL_SETUP_H
#define VIRTUAL_SETUP_H

#include "virtual_mpi.h"

int PMPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm)
{
    const struct comm *all = comm_of(comm);
    int *result = (int *)obtain((size_t)count * sizeof(int));
    if (type != MPI_INT || (op != MPI_MIN && op != MPI_MAX))
        give_up("an operation that is not here");
    show(comm, in == MPI_IN_PLACE ? out : in);
    memcpy(result, all->part[0], (size_t)count * sizeof(int));
    for (int r = 1; r < all->size; r++)
        for (int i = 0; i < count; i++) {
            int other = ((const int *)all->part[r])[i];
            if (op == MPI_MIN ? other < result[i] : other > result[i])
                result[i] = other;
        }
    meet(comm);
    memcpy(out, result, (size_t)count * sizeof(int));
    free(result);
    return MPI_SUCCESS;
}

int PMPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int PMPI_Test(MPI_Request *request, int *come, MPI_Status *status)
{
    (void)request, (void)status;
    *come = 1;
    return MPI_SUCCESS;
}

int PMPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm)
{
    size_t bytes = (size_t)bytes_of(in_count, in_type);
    (void)out_count, (void)out_type;
    show(comm, in);
    for (int r = 0; r < comm_of(comm)->size; r++)
        memcpy((char *)out + (size_t)r * bytes, comm_of(comm)->part[r], bytes);
    meet(comm);
    return MPI_SUCCESS;
}

int PMPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    show(comm, buffer);
    if (number_in(comm) != root)
        memcpy(buffer, comm_of(comm)->part[root], (size_t)bytes_of(count, type));
    meet(comm);
    return MPI_SUCCESS;
}

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made)
{
    const struct comm *all = comm_of(comm);
    int wish[2] = { color, key }, size = 0, *member;
    member = (int *)obtain((size_t)all->size * sizeof *member);
    show(comm, wish);
    for (int r = 0; r < all->size; r++) {
        const int *other = (const int *)all->part[r];
        int place = size;
        if (other[0] != color)
            continue;
        for (; place > 0; place--) { /* by key, then by rank */
            const int *before = (const int *)all->part[all->number[member[place - 1]]];
            if (before[1] <= other[1])
                break;
            member[place] = member[place - 1];
        }
        member[place] = all->member[r];
        size++;
    }
    meet(comm);
    *made = member[0] == world.me ? new_comm(member, size) : MPI_COMM_NULL;
    show(comm, made);
    *made = *(const MPI_Comm *)all->part[all->number[member[0]]];
    meet(comm);
    free(member);
    return MPI_SUCCESS;
}

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made)
{
    (void)group;
    return PMPI_Comm_split(comm, 0, 0, made);
}

#if MPI_VERSION >= 4
int PMPI_Comm_create_from_group(MPI_Group group, const char *name, MPI_Info info,
                                MPI_Errhandler handler, MPI_Comm *made)
{
    (void)name, (void)info, (void)handler;
    return PMPI_Comm_create((MPI_Comm)group, group, made);
}
#endif

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    *rank = number_in(comm);
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    *size = comm_of(comm)->size;
    return MPI_SUCCESS;
}

int PMPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
    (void)comm;
    *flag = 0;
    return MPI_SUCCESS;
}

int PMPI_Get_processor_name(char *name, int *length)
{
    *length = snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", world.rank[world.me].host);
    return MPI_SUCCESS;
}

int PMPI_Type_contiguous(int count, MPI_Datatype type, MPI_Datatype *made)
{
    int bytes = bytes_of(count, type), i = 0;
    while (i < MOST_TYPES && world.type[i] != 0 && world.type[i] != bytes)
        i++;
    if (i == MOST_TYPES)
        give_up("too many types");
    world.type[i] = bytes; /* never freed: types of a size are one */
    *made = (MPI_Datatype)i;
    return MPI_SUCCESS;
}

int PMPI_Type_create_indexed_block(int count, int length, const int *places, MPI_Datatype type,
                                   MPI_Datatype *made)
{
    (void)places;
    return PMPI_Type_contiguous(count * length, type, made);
}

int PMPI_Type_size_x(MPI_Datatype type, MPI_Count *size)
{
    *size = bytes_of(1, type);
    return MPI_SUCCESS;
}

int PMPI_Type_get_extent(MPI_Datatype type, MPI_Aint *least, MPI_Aint *extent)
{
    *least = 0;
    *extent = bytes_of(1, type);
    return MPI_SUCCESS;
}

int PMPI_Type_get_envelope(MPI_Datatype type, int *integers, int *addresses, int *types,
                           int *combiner)
{
    (void)type;
    *integers = *addresses = *types = 0;
    *combiner = MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}

#if MPI_VERSION >= 4
int PMPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count *integers, MPI_Count *addresses,
                             MPI_Count *large, MPI_Count *types, int *combiner)
{
    (void)type;
    *integers = *addresses = *large = *types = 0;
    *combiner = MPI_COMBINER_NAMED;
    return MPI_SUCCESS;
}
#endif

int PMPI_Type_commit(MPI_Datatype *type)
{
    (void)type;
    return MPI_SUCCESS;
}

int PMPI_Type_free(MPI_Datatype *type)
{
    *type = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

/* ---- of no consequence --------------------------------------------------------------------- */

int PMPI_Initialized(int *flag)
{
    *flag = 1;
    return MPI_SUCCESS;
}

double PMPI_Wtime(void)
{
    return agenda.now;
}

int PMPI_Finalized(int *flag)
{
    *flag = 0;
    return MPI_SUCCESS;
}

int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
    *group = (MPI_Group)comm; /* is of all its ranks */
    return MPI_SUCCESS;
}

int PMPI_Group_free(MPI_Group *group)
{
    (void)group;
    return MPI_SUCCESS;
}

int PMPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler)
{
    (void)comm;
    *handler = MPI_ERRORS_RETURN;
    return MPI_SUCCESS;
}

int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    (void)comm, (void)handler;
    return MPI_SUCCESS;
}

int PMPI_Errhandler_free(MPI_Errhandler *handler)
{
    (void)handler;
    return MPI_SUCCESS;
}

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *gone,
                            int *key, void *extra)
{
    (void)copy, (void)gone, (void)extra;
    *key = 1;
    return MPI_SUCCESS;
}

int PMPI_Comm_set_attr(MPI_Comm comm, int key, void *value)
{
    (void)comm, (void)key, (void)value;
    return MPI_SUCCESS;
}

#endif
