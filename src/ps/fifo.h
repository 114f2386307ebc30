// A queue that keeps its memory: once it has been as long as it gets, it allocates nothing. Whoever
// holds a reference into it must not push.
//
// Belongs to one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem::ps {

template <typename T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // The first has index 0. REQUIRES: there are so many.
  const T& operator[](std::size_t index) const { return memory_[wrapped(first_ + index)]; }
  const T& front() const { return (*this)[0]; }

  void push_back(T value) {
    if (size_ == memory_.size()) grow();
    memory_[wrapped(first_ + size_)] = std::move(value);
    ++size_;
  }
  // Before the one that has that index, or as the last.
  void insert(std::size_t index, T value) {
    push_back(std::move(value));
    for (std::size_t i = size_ - 1; i > index; --i)
      std::swap(memory_[wrapped(first_ + i)], memory_[wrapped(first_ + i - 1)]);
  }
  // REQUIRES: not empty.
  void pop_front() {
    TANDEM_CHECK(size_ > 0);
    memory_[first_] = T();
    first_ = wrapped(first_ + 1);
    --size_;
  }
  void clear() {
    while (!empty()) pop_front();
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    for (std::size_t count = size_; count > 0; --count) {
      T value = std::move(memory_[first_]);
      pop_front();
      if (!predicate(value)) push_back(std::move(value));
    }
  }

 private:
  static constexpr std::size_t kFirst = 16;

  // The memory's size is a power of two.
  std::size_t wrapped(std::size_t index) const { return index & (memory_.size() - 1); }
  void grow() {
    std::rotate(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(first_),
                memory_.end());
    first_ = 0;
    memory_.resize(std::max(kFirst, 2 * memory_.size()));
  }

  std::vector<T> memory_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace tandem::ps
