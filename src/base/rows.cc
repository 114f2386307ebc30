#include "base/rows.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/hash.h"
#include "base/rng.h"

namespace tandem {

std::uint64_t table_seed(std::uint64_t seed, std::string_view table) {
  const std::string name_hash = hash_hex(std::as_bytes(std::span(table)));
  return Rng({seed, std::strtoull(name_hash.substr(0, 16).c_str(), nullptr, 16)}).at(0);
}

void begin_row(std::uint64_t table_seed, std::uint64_t row, float scale, std::span<float> weights) {
  if (scale == 0) {
    std::fill(weights.begin(), weights.end(), 0.0F);
    return;
  }
  Rng rng({table_seed, row});
  for (float& weight : weights) weight = (2 * rng.uniform() - 1) * scale;
}

}  // namespace tandem
