#include "data/dataset.h"

#include <algorithm>

#include "base/hash.h"

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

std::string fingerprint(const Dataset& part) {
  constexpr std::int64_t kMostSamples = 1024;
  const std::int64_t samples = std::min(part.size(), kMostSamples);
  std::vector<std::uint32_t> indices;
  for (std::int64_t i = 0; i < samples; ++i) {
    // The first, the last, and what lies evenly between.
    const std::int64_t at = samples == 1 ? 0 : i * (part.size() - 1) / (samples - 1);
    indices.push_back(static_cast<std::uint32_t>(at));
  }
  Batch batch;
  part.gather(indices, batch);
  Hasher hasher;
  const std::int64_t size = part.size();
  hasher.add(std::as_bytes(std::span(&size, 1)));
  hasher.add(std::as_bytes(std::span(batch.inputs)));
  hasher.add(std::as_bytes(std::span(batch.tokens)));
  hasher.add(std::as_bytes(std::span(batch.classes)));
  hasher.add(std::as_bytes(std::span(batch.values)));
  return hasher.hex();
}

}  // namespace tandem::data
