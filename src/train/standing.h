// How far the members of a new group are, and whether they compute the same thing.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "collective/group.h"

namespace tandem::train {

struct Standing {
  std::int64_t step = -1;   // Steps done; -1: nothing but the first weights.
  std::int64_t judged = 0;  // After which step the last evaluation was.
  std::string facts;        // Prepared::facts.
};

struct Standings {
  int furthest = 0;  // The first rank of those that have done most.
  bool somebody_has_state = false;
  bool all_equal = true;
};

// Every member calls it. kInvalidArgument names a member with other facts.
Result<Standings> compare(collective::Group& group, const Standing& mine,
                          collective::Deadline deadline);

}  // namespace tandem::train
