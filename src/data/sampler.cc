#include "data/sampler.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"
#include "data/permutation.h"

namespace tandem::data {
namespace {

// Keeps the order of samples apart from other random numbers that are drawn from the same seed.
constexpr std::uint64_t kStream = 0x73616d706c6572;  // "sampler"

}  // namespace

Sampler::Sampler(std::int64_t samples, std::int64_t batch, std::int64_t lanes, std::uint64_t seed)
    : samples_(samples), batch_(batch), lanes_(lanes), seed_(seed) {
  TANDEM_CHECK(samples >= 1 && samples <= (std::int64_t{1} << 31));
  TANDEM_CHECK(batch >= 1 && lanes >= 1);
}

std::int64_t Sampler::steps_per_epoch() const {
  return samples_ / batch_ + (samples_ % batch_ != 0);
}

std::int64_t Sampler::most_lane_samples() const {
  return (std::min(batch_, samples_) + lanes_ - 1) / lanes_;
}

std::int64_t Sampler::step_samples(std::int64_t /*epoch*/, std::int64_t step) const {
  TANDEM_CHECK(step >= 0 && step < steps_per_epoch());
  return std::min(batch_, samples_ - step * batch_);
}

void Sampler::lane_indices(std::int64_t epoch, std::int64_t step, std::int64_t lane,
                           std::vector<std::uint32_t>& out) const {
  TANDEM_CHECK(lane >= 0 && lane < lanes_);
  const std::int64_t count = step_samples(epoch, step);
  const std::int64_t first = step * batch_ + count * lane / lanes_;
  const std::int64_t last = step * batch_ + count * (lane + 1) / lanes_;
  const Permutation order(samples_, Rng({kStream, seed_, static_cast<std::uint64_t>(epoch)}).at(0));
  out.clear();
  for (std::int64_t place = first; place < last; ++place) {
    out.push_back(order(static_cast<std::uint32_t>(place)));
  }
}

}  // namespace tandem::data
