#include "collective/gloo_verdict.h"

#include <fmt/format.h>

namespace tandem::collective {
namespace {

using Kind = Verdict::Kind;

std::uint32_t check_of(const Words& words) {
  return 0x54414e44u ^ (words[0] * 0x9e3779b1u) ^ (words[1] * 0x85ebca6bu) ^
         (words[2] * 0xc2b2ae35u);
}

// Nothing when it is not known.
std::string for_so_long(std::uint32_t tenths) {
  return tenths == 0 ? "" : fmt::format(" for {:.1f} s", tenths / 10.0);
}

}  // namespace

Words to_words(const Verdict& verdict) {
  Words words{static_cast<std::uint32_t>(verdict.kind), static_cast<std::uint32_t>(verdict.rank),
              verdict.tenths, 0};
  words[3] = check_of(words);
  return words;
}

std::optional<Verdict> to_verdict(const Words& words, int told_by, int size) {
  if (words[0] == 0 || words[3] != check_of(words)) return std::nullopt;
  if (words[0] > static_cast<std::uint32_t>(Kind::kAwaits) ||
      words[1] >= static_cast<std::uint32_t>(size)) {
    return Verdict{Kind::kFailed, told_by, 0, told_by, "it sent garbage"};
  }
  return Verdict{static_cast<Kind>(words[0]), static_cast<int>(words[1]), words[2], told_by, ""};
}

Error to_error(const Verdict& verdict, const Membership& membership) {
  const std::string name = membership.name(verdict.rank);
  const std::string seen_by =
      verdict.told_by < 0 ? "" : fmt::format(" (seen by {})", membership.name(verdict.told_by));
  const bool is_own = verdict.rank == membership.rank;
  switch (verdict.kind) {
    case Kind::kLeft:
      return Error(Code::kPeerLost, fmt::format("{} has left the group{}", name, seen_by));
    case Kind::kLost:
      if (is_own) {
        return Error(Code::kPeerLost, fmt::format("another worker lost its connection to this one, "
                                                  "{}{}; is the network sound?",
                                                  name, seen_by));
      }
      return Error(Code::kPeerLost,
                   fmt::format("{} is gone: its connection closed or was reset{}", name, seen_by));
    case Kind::kLate:
      if (is_own) {
        return Error(
            Code::kTimeout,
            fmt::format("the others gave up on this worker, {}: it was late{}{}; was it stopped?",
                        name, for_so_long(verdict.tenths), seen_by));
      }
      return Error(Code::kTimeout,
                   fmt::format("{} has not answered{}{}; it is late, not known to be dead "
                               "(stopped? network cut?)",
                               name, for_so_long(verdict.tenths), seen_by));
    default:
      break;
  }
  if (verdict.told_by >= 0)
    return Error(Code::kPeerLost, fmt::format("{} failed and left{}", name, seen_by));
  return Error(Code::kInternal, fmt::format("exchange with {}: {}", name, verdict.detail));
}

}  // namespace tandem::collective
