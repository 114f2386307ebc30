#include "collective/shm_reducer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem::collective {
namespace {

constexpr std::size_t kLine = 16;  // Floats of a cache line.

// Why one result is enough: a rank writes its slice of a bucket only after every rank has filled
// the bucket, which a rank does after it has used the result of the step before.
class SharedSum final : public ShmReducer {
 public:
  SharedSum(ShmControl& control, ReducePlan plan, ShmReducerMemory memory)
      : control_(control),
        plan_(std::move(plan)),
        memory_(std::move(memory)),
        in_pieces_(plan_.in_pieces && memory_.share == Share::kWhole),
        filled_(control_.slot(rank()).ready.value.load()),
        first_(filled_),
        first_done_(control_.slot(rank()).done.value.load()) {
    for (std::size_t i = 0; i < memory_.partials.size(); ++i) {
      if (memory_.partials[i].worker == rank()) own_.push_back(i);
    }
    // The partials of a target are neighbours.
    std::size_t next = 0;
    for (const ShmTarget& target : memory_.targets) {
      Addition addition{target, next, {}};
      for (; next < memory_.partials.size() && memory_.partials[next].lanes.end <= target.node.end;
           ++next)
        addition.sources.push_back(memory_.sets[0][next]);
      additions_.push_back(std::move(addition));
    }
  }

  std::size_t partials() const override { return own_.size(); }
  std::span<float> partial(std::size_t index) override {
    return {memory_.sets[set_][own_[index]], plan_.floats};
  }

  Status ready(std::size_t count) override {
    filled_ += static_cast<std::uint32_t>(count);
    control_.advance(control_.slot(rank()).ready, static_cast<std::uint32_t>(count));
    while (!in_pieces_ && first_ + summed_ != filled_ && all_filled(summed_)) sum_bucket(summed_);
    return control_.status();
  }

  Result<std::span<const float>> sum(Deadline deadline) override {
    const auto buckets = static_cast<std::uint32_t>(plan_.buckets.size());
    TANDEM_CHECK(filled_ == first_ + buckets && !in_pieces_);
    while (summed_ < buckets) {
      TANDEM_TRY(await_filled(summed_, deadline));
      sum_bucket(summed_);
    }
    first_ += buckets;
    first_done_ += buckets;
    summed_ = 0;
    // The others' slices are part of the result.
    if (memory_.share == Share::kSlices) TANDEM_TRY(release(deadline));
    return std::span<const float>(memory_.targets[0].sum, plan_.floats);
  }

  Status gather(Deadline deadline) override {
    if (!in_pieces_) return Reducer::gather(deadline);
    for (std::uint32_t bucket = 0; bucket < plan_.buckets.size(); ++bucket)
      TANDEM_TRY(await_filled(bucket, deadline));
    return {};
  }

  Piece piece(const Bucket& at, std::span<float> scratch) override {
    if (!in_pieces_) return Reducer::piece(at, scratch);
    const std::vector<float*>& memory = memory_.sets[set_];
    const std::span<const float* const> sources(memory.data(), memory.size());
    // Two parts of a node are its children, which may be added in any order.
    if (sources.size() == 2) {
      const std::size_t own = own_[0];
      return Piece({sources[own] + at.begin, sources[1 - own] + at.begin}, at.end - at.begin);
    }
    if (sources.size() <= Piece::kMostParts && is_plain({0, plan_.lanes}, memory_.partials))
      return Piece(sources, at.begin, at.end - at.begin);
    const std::size_t count = std::min(at.end - at.begin, scratch.size());
    add_partials(additions_[0].target.node, memory_.partials, sources, {at.begin, at.begin + count},
                 scratch.data());
    return Piece({scratch.data()}, count);
  }

  // A core that reads what another has written takes it away from there. Were all to begin with the
  // first float, each would come to floats of its own that another has just taken.
  std::size_t first() const override {
    const auto ranks = static_cast<std::size_t>(size());
    return plan_.floats / ranks / kLine * kLine * static_cast<std::size_t>(rank());
  }

  void taken() override {
    if (!in_pieces_) return;
    const auto buckets = static_cast<std::uint32_t>(plan_.buckets.size());
    first_ += buckets;
    first_done_ += buckets;
    set_ = (set_ + 1) % memory_.sets.size();
    control_.advance(control_.slot(rank()).done, buckets);
  }

  Status release(Deadline deadline) override {
    const auto buckets = static_cast<std::uint32_t>(plan_.buckets.size());
    // It does not matter who has read the steps since, which lie in the other sets.
    const auto others = static_cast<std::uint32_t>(memory_.sets.size() - 1);
    const std::uint32_t last = first_done_ - others * buckets;
    for (int peer = 0; peer < size(); ++peer) {
      const Counter& done = control_.slot(peer).done;
      if (ShmControl::reached(done, last)) continue;
      const std::uint32_t missing = std::clamp(last - done.value.load(), 1U, buckets);
      TANDEM_TRY(control_.await(peer, done, last, deadline, describe(buckets - missing)));
    }
    return {};
  }

  std::size_t targets() const override { return memory_.targets.size(); }
  float* target(std::size_t index) const override { return memory_.targets[index].sum; }
  std::size_t complete() const override {
    std::uint32_t least = static_cast<std::uint32_t>(plan_.buckets.size());
    for (int peer = 0; peer < size(); ++peer)
      least = std::min(least, control_.slot(peer).done.value.load() - first_done_);
    return least;
  }

 private:
  struct Addition {
    ShmTarget target;
    std::size_t first;                  // Of its partials.
    std::vector<const float*> sources;  // Their memory.
  };

  int rank() const { return control_.membership().rank; }
  int size() const { return control_.membership().size(); }

  std::string describe(std::uint32_t bucket) const {
    return fmt::format("bucket {} of {}", bucket + 1, plan_.buckets.size());
  }

  Status await_filled(std::uint32_t bucket, Deadline deadline) {
    if (all_filled(bucket)) return {};
    const std::string doing = describe(bucket);
    for (int peer = 0; peer < size(); ++peer) {
      TANDEM_TRY(
          control_.await(peer, control_.slot(peer).ready, first_ + bucket + 1, deadline, doing));
    }
    return {};
  }

  bool all_filled(std::uint32_t bucket) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!ShmControl::reached(control_.slot(peer).ready, first_ + bucket + 1)) return false;
    }
    return true;
  }

  void sum_bucket(std::uint32_t bucket) {
    const Bucket& all = plan_.buckets[bucket];
    const Bucket slice = memory_.share == Share::kWhole ? all : slice_of(all, rank(), size());
    for (const Addition& addition : additions_) {
      if (slice.begin == slice.end) break;
      add_partials(addition.target.node,
                   std::span(memory_.partials).subspan(addition.first, addition.sources.size()),
                   addition.sources, slice, addition.target.sum + slice.begin);
    }
    ++summed_;
    control_.advance(control_.slot(rank()).done);
  }

  ShmControl& control_;
  const ReducePlan plan_;
  const ShmReducerMemory memory_;
  const bool in_pieces_;  // Nothing is summed before it is asked for.
  std::vector<Addition> additions_;
  std::vector<std::size_t> own_;  // Which partials are ours.
  std::size_t set_ = 0;           // Where the partials of this step lie.

  // Buckets are counted through all steps, as the shared counters are.
  std::uint32_t filled_;      // By this rank.
  std::uint32_t first_;       // The first of this step.
  std::uint32_t first_done_;  // The same as `done` counts, which not all reducers use.
  std::uint32_t summed_ = 0;  // In this step, by this rank.
};

}  // namespace

std::unique_ptr<ShmReducer> make_shm_reducer(ShmControl& control, ReducePlan plan,
                                             ShmReducerMemory memory) {
  return std::make_unique<SharedSum>(control, std::move(plan), std::move(memory));
}

}  // namespace tandem::collective
