// Why a Gloo engine failed, as a value, as words to another rank, and as an Error. Pure functions;
// used by gloo_watch.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "collective/membership.h"

namespace tandem::collective {

struct Verdict {
  enum class Kind : std::uint32_t {
    kNone,
    kLeft,    // `rank` ended in good order.
    kLost,    // Its connection failed.
    kLate,    // It did not answer for so many `tenths` of a second.
    kFailed,  // Something else went wrong at it.
    kAwaits,  // Not a failure: the teller waits for `rank`.
  };

  Kind kind = Kind::kNone;
  int rank = 0;
  std::uint32_t tenths = 0;
  int told_by = -1;         // The rank that found it out; -1: we.
  std::string detail = {};  // What Gloo said.
};

// Kind, rank, tenths, check; as native as Gloo's own messages. The check shows that all of it is
// there, because one thread may look while another receives.
using Words = std::array<std::uint32_t, 4>;

Words to_words(const Verdict& verdict);

// Nothing while the words are not complete. What makes no sense becomes a kFailed of the teller.
std::optional<Verdict> to_verdict(const Words& words, int told_by, int size);

Error to_error(const Verdict& verdict, const Membership& membership);

}  // namespace tandem::collective
