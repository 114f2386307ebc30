// OpenMPI's own all-reduce as a peer: mpirun -n RANKS tandem-bench-mpi BYTES,BYTES,...
#include <mpi.h>

#include "measure.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const long bytes : tandem::bench::sizes_of(argc > 1 ? argv[1] : "1024")) {
    std::vector<float> buffer(static_cast<std::size_t>(bytes) / sizeof(float));
    const double seconds = tandem::bench::best_time(
        [&] {
          MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
        },
        [&](double value) {
          MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
          return value;
        });
    if (rank == 0) tandem::bench::print_result("openmpi", ranks, bytes, seconds);
  }
  MPI_Finalize();
  return 0;
}
