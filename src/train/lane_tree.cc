#include "train/lane_tree.h"

#include <bit>

#include "base/check.h"
#include "base/span_math.h"

namespace tandem::train {

LaneTree::LaneTree(std::int64_t lanes, std::span<float> result) : lanes_(lanes) {
  TANDEM_CHECK(lanes > 0);
  // The stack holds at most one partial for each bit of `lanes`, and one more before it is merged.
  const std::size_t most =
      lanes == 1 ? 1
                 : static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(lanes))) + 1;
  own_.assign(most - 1, std::vector<float>(result.size()));
  memory_.push_back(result);
  for (std::vector<float>& memory : own_) memory_.emplace_back(memory);
  free_.reserve(most);
  stack_.reserve(most);
  for (std::size_t i = most; i-- > 0;) free_.push_back(i);
}

void LaneTree::move_to(std::span<float> result) {
  TANDEM_CHECK(done_ == 0 && result.size() == memory_[0].size());
  memory_[0] = result;
}

std::span<float> LaneTree::next() {
  TANDEM_CHECK(done_ < lanes_ && !free_.empty());
  return memory_[free_.back()];
}

void LaneTree::push() {
  TANDEM_CHECK(!is_last());
  stack_.push_back({free_.back(), 1});
  free_.pop_back();
  ++done_;
  while (stack_.size() > 1 && stack_[stack_.size() - 2].lanes == stack_.back().lanes) {
    const Partial right = stack_.back();
    stack_.pop_back();
    Partial& left = stack_.back();
    add(memory_[left.memory], memory_[right.memory]);
    left.lanes += right.lanes;
    free_.push_back(right.memory);
  }
}

// After its last lane a tree is folded from the right, whatever the sizes: each partial is the left
// child of what is right of it.
void LaneTree::push_last(std::size_t begin, std::size_t end) {
  TANDEM_CHECK(is_last());
  std::span<const float> right = memory_[free_.back()].subspan(begin, end - begin);
  for (std::size_t i = stack_.size(); i-- > 0;) {
    const std::span<float> left = memory_[stack_[i].memory].subspan(begin, end - begin);
    add(left, right);
    right = left;
  }
}

void LaneTree::finish() {
  TANDEM_CHECK(is_last());
  // From the top down, so that the result's memory is given first again.
  while (!stack_.empty()) {
    free_.push_back(stack_.back().memory);
    stack_.pop_back();
  }
  done_ = 0;
}

}  // namespace tandem::train
