#include "train/lane_tree.h"

#include <bit>

#include "base/check.h"
#include "base/span_math.h"

namespace tandem::train {

LaneTree::LaneTree(std::int64_t lanes, std::int64_t floats) : lanes_(lanes) {
  TANDEM_CHECK(lanes > 0);
  // The stack holds at most one partial for each bit of `lanes`, and one more before it is merged.
  const std::size_t most =
      lanes == 1 ? 1
                 : static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(lanes))) + 1;
  memory_.assign(most, std::vector<float>(static_cast<std::size_t>(floats)));
  free_.reserve(memory_.size());
  stack_.reserve(memory_.size());
  for (std::size_t i = memory_.size(); i-- > 0;) free_.push_back(i);
}

std::span<float> LaneTree::next() {
  if (has_result_) {
    free_.push_back(result_);
    has_result_ = false;
  }
  TANDEM_CHECK(!free_.empty());
  return memory_[free_.back()];
}

void LaneTree::push() {
  stack_.push_back({free_.back(), 1});
  free_.pop_back();
  while (stack_.size() > 1 && stack_[stack_.size() - 2].lanes == stack_.back().lanes)
    merge_last_two();
}

std::span<float> LaneTree::finish() {
  while (stack_.size() > 1) merge_last_two();
  TANDEM_CHECK(stack_.size() == 1 && stack_.back().lanes == lanes_);
  result_ = stack_.back().memory;
  has_result_ = true;
  stack_.clear();
  return memory_[result_];
}

void LaneTree::merge_last_two() {
  const Partial right = stack_.back();
  stack_.pop_back();
  Partial& left = stack_.back();
  add(memory_[left.memory], memory_[right.memory]);
  left.lanes += right.lanes;
  free_.push_back(right.memory);
}

}  // namespace tandem::train
