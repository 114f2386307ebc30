// How processes that others started find each other and become a group: `mpirun`, Slurm's `srun`,
// or whoever sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Rank 0 serves a small store
// (collective/store.h) in which everyone leaves its name; the engine is then chosen from where
// the ranks run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "collective/group.h"
#include "collective/store.h"

namespace tandem::collective {

struct JoinOptions {
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // Of rank 0.
  std::uint16_t port = 0;             // Where the store is served.
  bool served = false;                // By somebody else, not by rank 0.
  std::string token;                  // Every rank must have the same.
  std::string engine = "auto";        // auto, shm, gloo, mpi.
  std::uint64_t generation = 0;
  std::chrono::milliseconds patience = std::chrono::seconds(60);  // Until all are there.
  std::chrono::milliseconds forming{0};  // From then to the group; 0: what is left of patience.
  Abandoned abandoned = {};              // True ends the wait for the others with kPeerLost.
};

// The value of an environment variable, if it is set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// What the environment says of a rank: nothing when it says nothing. kInvalidArgument when it is
// not whole or contradicts itself. Looks for RANK and WORLD_SIZE with MASTER_ADDR and MASTER_PORT,
// then OpenMPI's variables, then Slurm's. The token is TANDEM_TOKEN.
Result<std::optional<JoinOptions>> join_options_from(const Lookup& lookup);

// Becomes a member. kTimeout names the ranks that did not come.
Result<Group> join(const JoinOptions& options);

}  // namespace tandem::collective
