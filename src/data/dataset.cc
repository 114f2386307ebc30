#include "data/dataset.h"

namespace tandem::data {

std::int64_t Spec::sample_size() const {
  std::int64_t size = 1;
  for (std::int64_t extent : shape) size *= extent;
  return size;
}

void reserve(const Spec& spec, std::int64_t samples, Batch& batch) {
  const auto numbers = static_cast<std::size_t>(samples * spec.sample_size());
  if (spec.input == Input::kTokens) {
    batch.tokens.reserve(numbers);
  } else {
    batch.inputs.reserve(numbers);
  }
  if (spec.target == Target::kClass) {
    batch.classes.reserve(static_cast<std::size_t>(samples * spec.targets_per_sample));
  } else {
    batch.values.reserve(static_cast<std::size_t>(samples * spec.target_width));
  }
}

}  // namespace tandem::data
