// Whether all ranks have the same list of lines, such as a model's tensors.
#pragma once

#include <string>
#include <vector>

#include "tandem/group.h"

namespace tandem::library {

// Every rank calls it. Throws kInvalidArgument at every rank when one differs, naming the first
// such rank and its first line that is not as at most ranks: "rank 2 has `b [3]` where rank 0 has
// `b [4]`". `what` comes before that.
void demand_agreement(Group& group, const std::vector<std::string>& lines, const std::string& what);

}  // namespace tandem::library
