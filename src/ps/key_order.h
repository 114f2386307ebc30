// Keys in ascending order, sorted only as far as they are asked for: all at once could keep a
// server's only thread busy for longer than it may be silent. Belongs to one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tandem::ps {

class KeyOrder {
 public:
  // In any order.
  explicit KeyOrder(std::vector<std::uint64_t> keys)
      : keys_(std::move(keys)), parts_{keys_.size()} {}

  std::size_t size() const { return keys_.size(); }

  // Numbers [from, from + count). Takes time in proportion to what follows the sorted keys at most,
  // as long as calls go on where the last one ended. REQUIRES: there are so many.
  std::span<const std::uint64_t> get(std::size_t from, std::size_t count) {
    while (sorted_ < from + count) sort_more();
    return std::span(keys_).subspan(from, count);
  }

 private:
  static constexpr std::size_t kAtOnce = std::size_t{1} << 16;

  // Quicksort, as far as its first part.
  void sort_more() {
    const auto at = [this](std::size_t index) {
      return keys_.begin() + static_cast<std::ptrdiff_t>(index);
    };
    while (parts_.back() - sorted_ > kAtOnce) {
      const std::size_t middle = sorted_ + (parts_.back() - sorted_) / 2;
      std::nth_element(at(sorted_), at(middle), at(parts_.back()));
      parts_.push_back(middle);
    }
    std::sort(at(sorted_), at(parts_.back()));
    sorted_ = parts_.back();
    parts_.pop_back();
  }

  std::vector<std::uint64_t> keys_;
  std::size_t sorted_ = 0;
  // Where parts behind the sorted keys end, the first part last: no key of one is larger than any
  // of the next.
  std::vector<std::size_t> parts_;
};

}  // namespace tandem::ps
