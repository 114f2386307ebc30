// Adds the lanes' gradients in one fixed binary tree over lane numbers, so that the sum's bits do
// not depend on who computed which lane. The tree splits n lanes at the largest power of two below
// n: ((0+1)+(2+3))+4.
//
// Lanes come in order; a finished left neighbour is added to as soon as its right one is there, so
// memory grows with the tree's height only. All memory is taken at construction. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::train {

class LaneTree {
 public:
  LaneTree(std::int64_t lanes, std::int64_t floats);

  // Memory for the next lane's numbers; valid until push().
  std::span<float> next();
  // The lane whose memory next() gave is complete.
  void push();
  // The sum over all lanes, valid until next() is called again. REQUIRES: every lane was pushed.
  std::span<float> finish();

 private:
  struct Partial {
    std::size_t memory;  // Index into memory_.
    std::int64_t lanes;  // How many lanes it sums: a power of two, until finish().
  };
  void merge_last_two();

  const std::int64_t lanes_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::size_t> free_;
  std::vector<Partial> stack_;
  std::size_t result_ = 0;
  bool has_result_ = false;  // memory_[result_] is still in use by the caller.
};

}  // namespace tandem::train
