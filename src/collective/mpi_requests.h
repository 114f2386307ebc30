// The requests of one operation of MPI: waits for all of them until a deadline, and says whose is
// missing. Used by mpi_engine.cc; belongs to one thread at a time.
#pragma once

#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/membership.h"

namespace tandem::collective {

// `about` is who or what the failed call had to do with.
Error mpi_error(int code, const std::string& about);

class MpiRequests {
 public:
  static constexpr int kEverybody = -1;

  // Forgets those of the operation before and keeps their memory.
  void begin();
  // Where MPI puts the next request, which has to do with `peer`.
  MPI_Request& add(int peer);
  // Waits for all of them. `code` is what the last call that started one returned.
  Status finish(int code, const Membership& membership, Deadline deadline);

 private:
  Error late(const Membership& membership, Deadline now);

  Deadline began_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;  // Of each request.
  std::vector<MPI_Status> statuses_;
};

}  // namespace tandem::collective
