#include "ps/task_progress.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ps/dispenser.h"

namespace tandem::ps {

bool TaskProgress::has(std::int64_t task) const {
  return task >= from_ * lanes_ && task - from_ * lanes_ < kMostTasks;
}

std::size_t TaskProgress::index(std::int64_t task) const {
  TANDEM_CHECK(has(task));
  return static_cast<std::size_t>(task - from_ * lanes_);
}

std::size_t TaskProgress::applied(std::int64_t task) const {
  return index(task) < applied_.size() ? applied_[index(task)] : 0;
}

void TaskProgress::make_room(std::int64_t task) {
  const std::size_t needed = index(task) + 1;
  if (needed > applied_.capacity()) applied_.reserve(std::max(needed, 2 * applied_.capacity()));
}

void TaskProgress::apply(std::int64_t task) {
  if (applied_.size() <= index(task)) applied_.resize(index(task) + 1);
  ++applied_[index(task)];
}

void TaskProgress::apply_step() {
  applied_.resize(applied_.size() + static_cast<std::size_t>(lanes_),
                  static_cast<std::uint32_t>(pieces_));
}

std::uint64_t TaskProgress::updates() const {
  return std::accumulate(applied_.begin(), applied_.end(), std::uint64_t{0});
}

std::vector<std::int64_t> TaskProgress::complete() const {
  std::vector<std::int64_t> tasks;
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    if (applied_[i] == pieces_) tasks.push_back(from_ * lanes_ + static_cast<std::int64_t>(i));
  }
  return tasks;
}

bool TaskProgress::stands_after(std::int64_t step) const {
  if (step < from_ || step - from_ > kMostTasks) return false;
  return std::cmp_equal(applied_.size(), (step - from_) * lanes_) &&
         std::all_of(applied_.begin(), applied_.end(),
                     [&](std::uint32_t pieces) { return pieces == pieces_; });
}

}  // namespace tandem::ps
