// How far the tasks of a stretch of steps (ps/dispenser.h) have come at a server, whose slice
// travels in pieces. Outlives generations: a task that is computed again, because who computed it
// died, is applied only where it was not. Bookkeeping only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tandem::ps {

class TaskProgress {
 public:
  // No task has begun. The stretch begins after `from` steps.
  TaskProgress(std::int64_t from, std::int64_t lanes, std::size_t pieces)
      : from_(from), lanes_(lanes), pieces_(pieces) {}
  // Goes on from applied() of another.
  TaskProgress(std::int64_t from, std::int64_t lanes, std::size_t pieces,
               std::vector<std::uint32_t> applied)
      : from_(from), lanes_(lanes), pieces_(pieces), applied_(std::move(applied)) {}

  std::int64_t from() const { return from_; }
  // Whether the task can belong to the stretch.
  bool has(std::int64_t task) const;
  // How many of its pieces were applied. REQUIRES, also below: has(task).
  std::size_t applied(std::int64_t task) const;
  // One piece more is.
  void apply(std::int64_t task);
  // So that apply() takes no memory.
  void make_room(std::int64_t task);

  // All pieces of all tasks of the first step that is not complete are: it was closed.
  void apply_step();
  // The first step of which something is missing, where steps are applied as a whole.
  std::int64_t open_step() const {
    return from_ + static_cast<std::int64_t>(applied_.size()) / lanes_;
  }

  std::int64_t lanes() const { return lanes_; }
  std::size_t pieces() const { return pieces_; }
  // Pieces by task, from the first of the stretch on.
  const std::vector<std::uint32_t>& applied() const { return applied_; }
  // And of all tasks: of two copies of a slice the one that has more is further.
  std::uint64_t updates() const;

  // Tasks all of whose pieces were applied, in order.
  std::vector<std::int64_t> complete() const;
  bool has_begun() const { return !applied_.empty(); }
  // No task from this one on has begun.
  std::int64_t begun_below() const {
    return from_ * lanes_ + static_cast<std::int64_t>(applied_.size());
  }
  // Whether all tasks before `step` are complete, and no other has begun.
  bool stands_after(std::int64_t step) const;

 private:
  std::size_t index(std::int64_t task) const;

  std::int64_t from_;
  std::int64_t lanes_;
  std::size_t pieces_;
  std::vector<std::uint32_t> applied_;
};

}  // namespace tandem::ps
