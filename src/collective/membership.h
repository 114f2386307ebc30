// Who takes part in a group: ranks with names that messages to people can use. Plain values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::collective {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline deadline_after(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

struct Member {
  std::string host;
  pid_t pid = 0;

  friend bool operator==(const Member&, const Member&) = default;
};

struct Membership {
  int rank = 0;  // Ours.
  std::uint64_t generation = 0;
  std::vector<int> numbers;  // What ranks are called when they are part of a larger group.
  std::vector<Member> members = {Member{}};  // By rank.

  int size() const { return static_cast<int>(members.size()); }
  // "worker 2 (pid 71 on node-b)".
  std::string name(int rank_of) const;
};

}  // namespace tandem::collective
