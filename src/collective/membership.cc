#include "collective/membership.h"

#include <fmt/format.h>

namespace tandem::collective {

std::string Membership::name(int rank_of) const {
  const auto index = static_cast<std::size_t>(rank_of);
  const Member& member = members[index];
  const int number = index < numbers.size() ? numbers[index] : rank_of;
  if (member.pid == 0) return fmt::format("worker {}", number);
  return fmt::format("worker {} (pid {} on {})", number, member.pid, member.host);
}

}  // namespace tandem::collective
