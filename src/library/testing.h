// Helpers for tests of this folder: ranks as threads of one process.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "collective/testing.h"
#include "library/group_state.h"

namespace tandem::library::testing {

// Runs `body` once for each rank, each on a thread of its own.
inline void run_ranks(int size, const std::function<void(Group)>& body,
                      const GroupOptions& options = {}) {
  collective::testing::run_shm_ranks(
      size, [&](collective::Group& group) { body(make_group(std::move(group), options)); });
}

// The failure that a call throws.
inline Failure failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Failure::Code::kInternal, ""};
}

}  // namespace tandem::library::testing
