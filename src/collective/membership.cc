#include "collective/membership.h"

#include <fmt/format.h>

namespace tandem::collective {

std::string Membership::name(int rank_of) const {
  const Member& member = members[static_cast<std::size_t>(rank_of)];
  if (member.pid == 0) return fmt::format("worker {}", rank_of);
  return fmt::format("worker {} (pid {} on {})", rank_of, member.pid, member.host);
}

}  // namespace tandem::collective
