// A piece [begin, end) of the flat parameter vector, counted in floats. Optimizers and clipping
// take lists of them: what is trained, as opposed to frozen.
#pragma once

#include <cstdint>

namespace tandem::optim {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const Range&, const Range&) = default;
};

}  // namespace tandem::optim
