// The workers of a run, as far as the node told this one.
#pragma once

#include "base/result.h"
#include "collective/join.h"

namespace tandem::worker {

struct GroupOptions {
  collective::JoinOptions join;
  int arena = -1;          // Shared memory, when the workers of this host meet there.
  double patience_s = 72;  // Until all workers are there.
};

// What the members of a group prove themselves with to each other's store; not an argument, which
// every user of the machine could read.
std::string token();

// Returns when all workers are there.
Result<collective::Group> join_group(const GroupOptions& options);

}  // namespace tandem::worker
