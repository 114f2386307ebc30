// Which samples a lane trains on in a step: a pure function of (seed, epoch, step, lane), so a run
// can be taken up at any step without replaying, and any worker can compute any lane. Every sample
// occurs exactly once per epoch; the last batch of an epoch may be short. A plain value; const
// methods may be called by many threads.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::data {

class Sampler {
 public:
  // REQUIRES: 1 <= samples <= 2^31; batch at least 1; 1 <= lanes < 2^31.
  Sampler(std::int64_t samples, std::int64_t batch, std::int64_t lanes, std::uint64_t seed);

  std::int64_t samples() const { return samples_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t lanes() const { return lanes_; }

  std::int64_t steps_per_epoch() const;

  // Samples in the global batch of this step of an epoch: batch(), or less in the last one.
  std::int64_t step_samples(std::int64_t epoch, std::int64_t step) const;

  // The most samples that a lane batch can have.
  std::int64_t most_lane_samples() const;

  // Fills `out` with the sample numbers of one lane batch. The lanes of a step are contiguous
  // pieces of its global batch whose sizes differ by one at most; they are empty when there are
  // fewer samples than lanes. REQUIRES: 0 <= step < steps_per_epoch(), 0 <= lane < lanes().
  void lane_indices(std::int64_t epoch, std::int64_t step, std::int64_t lane,
                    std::vector<std::uint32_t>& out) const;

 private:
  std::int64_t samples_;
  std::int64_t batch_;
  std::int64_t lanes_;
  std::uint64_t seed_;
};

}  // namespace tandem::data
