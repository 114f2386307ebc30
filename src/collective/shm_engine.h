// Collectives between processes of one host, in memory that they share (collective/arena.h). What
// lies in the arena is reduced in place, each rank summing its slice straight from the others'
// memory; anything else passes through staging memory.
#pragma once

#include <memory>

#include "base/result.h"
#include "collective/arena.h"
#include "collective/engine.h"
#include "collective/shm_control.h"
#include "collective/shm_reducer.h"

namespace tandem::collective {

// What the level above (collective/two_level.h) needs of it.
class ShmEngine : public Engine {
 public:
  virtual ShmControl& control() = 0;
  // Memory that all ranks map, from the same place of the arena. Every rank asks for the same.
  virtual Result<std::byte*> map_common(std::size_t bytes, Deadline deadline) = 0;
  // Takes `memory.partials` and the targets' nodes, and finds the memory for them.
  virtual Result<std::unique_ptr<ShmReducer>> make_shared_reducer(ReducePlan plan,
                                                                  ShmReducerMemory memory,
                                                                  Deadline deadline) = 0;
};

// Every rank of the host calls this with the same arena; returns when all have.
// `membership.members` need not know the pids yet. The arena must not have been used by another
// group.
Result<std::unique_ptr<ShmEngine>> make_shm_engine(std::shared_ptr<const Arena> arena,
                                                   Membership membership, Deadline deadline);

}  // namespace tandem::collective
