// The engine for ranks that mpirun started: MPI moves the bytes, over whatever network it has.
//
// MPI lives once in a process and cannot lose a member: after a failure the process should end, and
// until then MPI may still touch the memory of the exchange that failed. Calls may come from any
// thread, one at a time. A build without MPI has no_mpi.cc instead.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "collective/engine.h"

namespace tandem::collective {

struct MpiOptions {
  std::uint64_t generation = 0;  // For the membership; rank, size and members come from MPI.
  Deadline deadline;
};

// Whether this build has MPI.
bool has_mpi();

// All ranks of MPI_COMM_WORLD have to call it. Initialises MPI if nobody did, and then finalises it
// when the engine ends without a failure.
Result<std::unique_ptr<Engine>> make_mpi_engine(MpiOptions options);

}  // namespace tandem::collective
