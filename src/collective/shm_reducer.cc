#include "collective/shm_reducer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem::collective {
namespace {

// Why one result is enough: a rank writes its slice of a bucket only after every rank has filled
// the bucket, which a rank does after it has used the result of the step before. And why partials
// may be written after finish(): it returns when every slice has been summed.
class ShmReducer final : public Reducer {
 public:
  ShmReducer(ShmControl& control, ReducePlan plan, std::vector<Partial> partials,
             ShmReducerMemory memory)
      : control_(control),
        plan_(std::move(plan)),
        partials_(std::move(partials)),
        memory_(std::move(memory)),
        sources_(memory_.partials.begin(), memory_.partials.end()),
        filled_(control_.slot(rank()).ready.value.load()) {
    for (std::size_t i = 0; i < partials_.size(); ++i) {
      if (partials_[i].worker == rank()) own_.push_back(i);
    }
    first_ = filled_;
  }

  std::size_t partials() const override { return own_.size(); }
  std::span<float> partial(std::size_t index) override {
    return {memory_.partials[own_[index]], plan_.floats};
  }

  Status ready(std::size_t count) override {
    filled_ += static_cast<std::uint32_t>(count);
    control_.advance(control_.slot(rank()).ready, static_cast<std::uint32_t>(count));
    while (first_ + summed_ != filled_ && all_filled(summed_)) sum(summed_);
    return control_.status();
  }

  Result<std::span<const float>> finish(Deadline deadline) override {
    const auto buckets = static_cast<std::uint32_t>(plan_.buckets.size());
    TANDEM_CHECK(filled_ == first_ + buckets);
    while (summed_ < buckets) {
      const std::string doing = describe(summed_);
      for (int peer = 0; peer < size(); ++peer) {
        TANDEM_TRY(
            control_.await(peer, control_.slot(peer).ready, first_ + summed_ + 1, deadline, doing));
      }
      sum(summed_);
    }
    for (int peer = 0; peer < size(); ++peer) {
      TANDEM_TRY(control_.await(peer, control_.slot(peer).done, first_ + buckets, deadline,
                                describe(buckets - 1)));
    }
    first_ += buckets;
    summed_ = 0;
    return std::span<const float>(memory_.result, plan_.floats);
  }

 private:
  int rank() const { return control_.membership().rank; }
  int size() const { return control_.membership().size(); }

  std::string describe(std::uint32_t bucket) const {
    return fmt::format("bucket {} of {}", bucket + 1, plan_.buckets.size());
  }

  bool all_filled(std::uint32_t bucket) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!ShmControl::reached(control_.slot(peer).ready, first_ + bucket + 1)) return false;
    }
    return true;
  }

  void sum(std::uint32_t bucket) {
    const Bucket slice = slice_of(plan_.buckets[bucket], rank(), size());
    if (slice.begin < slice.end)
      add_partials(plan_.lanes, partials_, sources_, slice, memory_.result + slice.begin);
    ++summed_;
    control_.advance(control_.slot(rank()).done);
  }

  ShmControl& control_;
  const ReducePlan plan_;
  const std::vector<Partial> partials_;
  const ShmReducerMemory memory_;
  const std::vector<const float*> sources_;
  std::vector<std::size_t> own_;  // Which partials are ours.

  // Buckets are counted through all steps, as the shared counters are.
  std::uint32_t filled_;      // By this rank.
  std::uint32_t first_ = 0;   // The first of this step.
  std::uint32_t summed_ = 0;  // In this step, by this rank.
};

}  // namespace

std::unique_ptr<Reducer> make_shm_reducer(ShmControl& control, ReducePlan plan,
                                          std::vector<Partial> partials, ShmReducerMemory memory) {
  return std::make_unique<ShmReducer>(control, std::move(plan), std::move(partials),
                                      std::move(memory));
}

}  // namespace tandem::collective
