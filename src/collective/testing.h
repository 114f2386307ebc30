// Helpers for tests of this folder: ranks as threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "collective/group.h"
#include "collective/shm_engine.h"

namespace tandem::collective::testing {

inline Deadline soon() {
  return deadline_after(std::chrono::seconds(20));
}

inline Membership member(int rank, int size) {
  Membership membership;
  membership.rank = rank;
  membership.members.assign(static_cast<std::size_t>(size), Member{"here", 0});
  return membership;
}

// Runs `body` once for each rank, each on a thread of its own with a group on shared memory.
inline void run_shm_ranks(int size, const std::function<void(Group&)>& body) {
  auto arena = Arena::create();
  TANDEM_CHECK(arena.ok());
  const auto shared = std::make_shared<const Arena>(std::move(arena).value());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto engine = make_shm_engine(shared, member(rank, size), soon());
      TANDEM_CHECK(engine.ok());
      Group group(std::move(engine).value());
      body(group);
    });
  }
}

}  // namespace tandem::collective::testing
