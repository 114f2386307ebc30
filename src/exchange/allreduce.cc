#include "exchange/allreduce.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/clip.h"

namespace tandem::exchange {
namespace {

// Floats of the sum that are added and used at a time: they stay in the first-level cache, with
// what the optimizer fetches for them. Of few parameters more at once, for they come from near.
constexpr std::size_t kPiece = 512;
constexpr std::size_t kLargePiece = 2048;
constexpr std::size_t kFewParameters = 1 << 15;

class AllReduce final : public Exchange {
 public:
  AllReduce(const Plan& plan, std::unique_ptr<collective::Reducer> reducer,
            optim::Optimizer& optimizer)
      : plan_(plan),
        reducer_(std::move(reducer)),
        optimizer_(optimizer),
        clipped_(plan_.clip.value > 0 ? plan_.parameters : 0),
        scratch_(plan_.parameters <= kFewParameters ? kLargePiece : kPiece) {}

  std::size_t partials() const override { return reducer_->partials(); }
  std::span<float> partial(std::size_t index) override { return reducer_->partial(index); }

  Status begin(std::int64_t, double lr) override {
    lr_ = lr;
    return {};
  }
  Status make_room(Deadline deadline) override { return reducer_->release(deadline); }
  bool has_room() const override { return reducer_->is_released(); }
  Status ready(std::size_t count) override { return reducer_->ready(count); }
  Status gather(Deadline deadline) override { return reducer_->gather(deadline); }

  void take(Bucket at, std::span<float> to) override {
    while (at.begin < at.end) {
      const collective::Piece piece = reducer_->piece(at, scratch_);
      collective::copy_sum(piece, to);
      to = to.subspan(piece.floats);
      at.begin += piece.floats;
    }
  }

  Update update(std::span<float> parameters) override {
    Update result;
    optim::Clipping clipping;
    if (!plan_.reduce.in_pieces) clipping = clip();
    result.norm = clipping.norm;
    if (!std::isfinite(clipping.norm)) {
      result.updated = optim::Updated::kNotFinite;
      return result;
    }
    optimizer_.begin(lr_, clipping.scale);
    const auto first = static_cast<std::int64_t>(reducer_->first());
    for (const optim::Range& part :
         {optim::Range{first, static_cast<std::int64_t>(plan_.parameters)},
          optim::Range{0, first}}) {
      for (const optim::Range& range : plan_.trainable) {
        if (update_range(parameters, common(range, part)) == optim::Updated::kNotFinite)
          result.updated = optim::Updated::kNotFinite;
      }
    }
    return result;
  }

  void end() override { reducer_->taken(); }

 private:
  optim::Clipping clip() {
    // A plan that is not in pieces gives all of them at once.
    std::span<const float> gradients(reducer_->piece({0, plan_.parameters}, {}).parts[0],
                                     plan_.parameters);
    if (plan_.clip.value > 0) {
      // The sum is everybody's, so it is not changed where it lies.
      std::copy(gradients.begin(), gradients.end(), clipped_.begin());
      optim::clip_by_value(clipped_, plan_.clip, plan_.trainable);
      gradients = clipped_;
    }
    return optim::clip_by_norm(gradients, plan_.clip, plan_.trainable);
  }

  static optim::Range common(const optim::Range& a, const optim::Range& b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }

  // An empty range may end before it begins.
  optim::Updated update_range(std::span<float> parameters, const optim::Range& range) {
    optim::Updated result = optim::Updated::kFinite;
    if (range.begin >= range.end) return result;
    const auto end = static_cast<std::size_t>(range.end);
    for (auto at = static_cast<std::size_t>(range.begin); at < end;) {
      const collective::Piece piece = clipped_.empty()
                                          ? reducer_->piece({at, end}, scratch_)
                                          : collective::Piece({clipped_.data() + at}, end - at);
      const optim::Range part{static_cast<std::int64_t>(at),
                              static_cast<std::int64_t>(at + piece.floats)};
      if (optimizer_.update(parameters, piece.arrays(), part) == optim::Updated::kNotFinite)
        result = optim::Updated::kNotFinite;
      at += piece.floats;
    }
    return result;
  }

  const Plan plan_;
  const std::unique_ptr<collective::Reducer> reducer_;
  optim::Optimizer& optimizer_;
  std::vector<float> clipped_;  // A copy of the gradients when they are clipped by value.
  std::vector<float> scratch_;  // For pieces of the sum.
  double lr_ = 0;
};

}  // namespace

Result<std::unique_ptr<Exchange>> make_allreduce(const Plan& plan, collective::Group& group,
                                                 optim::Optimizer& optimizer, Deadline deadline) {
  TANDEM_ASSIGN(auto reducer, group.make_reducer(plan.reduce, deadline));
  return std::unique_ptr<Exchange>(
      std::make_unique<AllReduce>(plan, std::move(reducer), optimizer));
}

}  // namespace tandem::exchange
