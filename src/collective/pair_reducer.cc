#include "collective/pair_reducer.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "base/check.h"

namespace tandem::collective {
namespace {

constexpr std::size_t kLine = 16;  // Floats of a cache line.

// Where the first whole cache line begins: products write whole registers.
float* aligned(std::vector<float>& memory) {
  void* begin = memory.data();
  std::size_t bytes = memory.size() * sizeof(float);
  return static_cast<float*>(std::align(kLine * sizeof(float), sizeof(float), begin, bytes));
}

class PairSum final : public Reducer {
 public:
  PairSum(ShmControl& control, ReducePlan plan, std::array<float*, 2> places)
      : control_(control),
        plan_(std::move(plan)),
        places_(places),
        memory_(plan_.floats + kLine),
        own_(aligned(memory_), plan_.floats),
        first_(own_slot().ready.value.load()) {}

  std::size_t partials() const override { return 1; }
  std::span<float> partial(std::size_t) override { return own_; }

  Status ready(std::size_t count) override {
    float* const place = places_[own_place_];
    for (const std::size_t end = told_ + count; told_ < end; ++told_) {
      const Bucket& bucket = plan_.buckets[told_];
      // From 8 KiB on memcpy() does not read the lines that it overwrites.
      std::memcpy(place + bucket.begin, own_.data() + bucket.begin,
                  (bucket.end - bucket.begin) * sizeof(float));
    }
    // Once for all buckets: a rank that waits takes the counter's line away from us.
    if (told_ == plan_.buckets.size()) control_.advance(own_slot().ready, buckets());
    return control_.status();
  }

  Result<std::span<const float>> sum(Deadline) override { TANDEM_CHECK(false); }

  Status gather(Deadline deadline) override {
    TANDEM_CHECK(told_ == plan_.buckets.size());
    const Counter& ready = control_.slot(other()).ready;
    const std::uint32_t all = first_ + buckets();
    if (!ShmControl::reached(ready, all)) {
      TANDEM_TRY(
          control_.await(other(), ready, all, deadline, fmt::format("bucket 1 of {}", buckets())));
    }
    return {};
  }

  Piece piece(const Bucket& at, std::span<float>) override {
    return Piece({own_.data() + at.begin, others() + at.begin}, at.end - at.begin);
  }

  void taken() override {
    first_ += buckets();
    told_ = 0;
    own_place_ = 1 - own_place_;
  }

  // Only we have read the place that is ours in the next step.
  Status release(Deadline) override { return {}; }
  bool is_released() const override { return true; }

 private:
  int other() const { return 1 - control_.membership().rank; }
  Slot& own_slot() { return control_.slot(control_.membership().rank); }
  const float* others() const { return places_[1 - own_place_]; }
  std::uint32_t buckets() const { return static_cast<std::uint32_t>(plan_.buckets.size()); }

  ShmControl& control_;
  const ReducePlan plan_;
  const std::array<float*, 2> places_;
  std::vector<float> memory_;
  std::span<float> own_;  // Our partial sum, which lies there.
  std::size_t own_place_ = static_cast<std::size_t>(control_.membership().rank);

  // Buckets are counted through all steps, as the shared counters are.
  std::uint32_t first_;   // The first of this step.
  std::size_t told_ = 0;  // Of this step.
};

}  // namespace

std::unique_ptr<Reducer> make_pair_reducer(ShmControl& control, ReducePlan plan,
                                           std::array<float*, 2> places) {
  return std::make_unique<PairSum>(control, std::move(plan), places);
}

}  // namespace tandem::collective
