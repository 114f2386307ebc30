// Adds up the lanes of one node of the lane tree (collective/tree.h) inside a worker. Lanes come in
// order; a finished left neighbour is added to as soon as its right one is there, so memory grows
// with the tree's height only. The last lane may be added piece by piece while it is being
// computed.
//
// The result lies in memory of the caller's; the rest is taken at construction. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::train {

class LaneTree {
 public:
  // `result` must outlive it; it serves as the first lane's memory too.
  LaneTree(std::int64_t lanes, std::span<float> result);

  // Before the first lane: the result of this time lies elsewhere.
  void move_to(std::span<float> result);

  // Memory for the next lane's numbers.
  std::span<float> next();
  bool is_last() const { return done_ + 1 == lanes_; }
  // The lane whose memory next() gave, which is not the last, is complete.
  void push();
  // Floats [begin, end) of the last lane are complete: afterwards they are in the result. Each
  // float once.
  void push_last(std::size_t begin, std::size_t end);
  // All of the last lane was pushed; the next lane is the first again.
  void finish();

 private:
  struct Partial {
    std::size_t memory;  // Index into memory_.
    std::int64_t lanes;  // How many it sums: a power of two.
  };

  const std::int64_t lanes_;
  std::vector<std::vector<float>> own_;
  std::vector<std::span<float>> memory_;  // The result, then own_.
  std::vector<std::size_t> free_;         // The last is given next.
  std::vector<Partial> stack_;
  std::int64_t done_ = 0;  // Lanes that were pushed.
};

}  // namespace tandem::train
