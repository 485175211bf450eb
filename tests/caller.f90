! A Fortran program that knows nothing of ATALL. Prints "fine".
program caller
  use mpi
  implicit none
  integer :: code, rank, ranks, i
  integer, allocatable :: sent(:), got(:)
  logical :: right
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  allocate(sent(ranks), got(ranks))
  sent = [(1000 * rank + i, i = 0, ranks - 1)]
  call MPI_Alltoall(sent, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, code)
  right = all(got == [(1000 * i + rank, i = 0, ranks - 1)])
  if (.not. right) call MPI_Abort(MPI_COMM_WORLD, 1, code)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  if (rank == 0) print '(a)', 'fine'
  call MPI_Finalize(code)
end program caller
