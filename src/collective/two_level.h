// Ranks on several hosts, several on some: training steps are summed inside each host first, in
// shared memory, then between one leader of each host by messages. Only leaders' partial sums
// travel. Everything else goes between all ranks.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "collective/engine.h"
#include "collective/shm_engine.h"

namespace tandem::collective {

struct TwoLevelParts {
  std::unique_ptr<Engine> all;       // Between all ranks.
  std::unique_ptr<ShmEngine> local;  // Between the ranks of this host; rank 0 there is its leader.
  std::unique_ptr<Engine> leaders;   // Between leaders, by host; null at other ranks.
  std::vector<int> first_ranks;      // Of each host, in order: hosts have contiguous ranks.
};

std::unique_ptr<Engine> make_two_level_engine(TwoLevelParts parts);

}  // namespace tandem::collective
