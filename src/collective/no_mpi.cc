#include "collective/mpi_engine.h"

namespace tandem::collective {

bool has_mpi() {
  return false;
}

Result<std::unique_ptr<Engine>> make_mpi_engine(MpiOptions) {
  return Error(Code::kInvalidArgument,
               "this build of tandem has no MPI; install libopenmpi-dev and build again, or choose "
               "the engine shm or gloo");
}

}  // namespace tandem::collective
