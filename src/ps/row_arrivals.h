// The rows of tables at a server when workers do not wait for each other: each worker pulls the
// rows of its task before it computes, and what it pushes for them is applied once all of it is
// there, whatever others do. `step` of these messages is a task (ps/dispenser.h).
//
// All rows of a task at a server are one update, which comes behind the task's pieces
// (ps/arrivals.h) and is applied as a whole or not at all: so a task that is computed again,
// because who computed it died, is applied only where it was not. `stale_lr` and `compensation` act
// as on pieces; what a row has missed counts from when it was pulled.
//
// Believes nothing, as RowRound, which it has one of for each worker. Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "ps/dense_slice.h"
#include "ps/message.h"
#include "ps/plan.h"
#include "ps/row_round.h"
#include "ps/table_set.h"
#include "ps/task_progress.h"

namespace tandem::ps {

// What rows are part of: the slice, or tables that are kept by key.
struct RowPlace {
  DenseSlice& slice;
  TableSet* tables = nullptr;
};

class RowArrivals {
 public:
  // REQUIRES: the plan is of workers that do not wait.
  RowArrivals(const Plan& plan, const Bucket& slice, const KeyShare& share);

  // Whether the server holds any row.
  bool is_empty() const { return workers_.front().round.is_empty(); }

  // As RowRound's, where tasks must be of the stretch.
  Result<std::span<std::byte>> place(const Header& header, int worker,
                                     const TaskProgress& progress);
  Status take_list(const Header& header, int worker);
  Status take_push(const Header& header, int worker, const TaskProgress& progress);
  Result<RowRound::Pull> take_pull(const Header& header, int worker, const TaskProgress& progress);
  // These are the rows that the pull is answered with.
  void note_answer(int worker, const RowRound::Pull& pull, std::span<const float> weights);

  // The task whose rows the worker has pushed, all of them; nothing until then.
  std::optional<std::int64_t> complete(int worker) const;
  // Applies them. An Error only when memory is out; then, as when it throws for that, nothing was.
  // REQUIRES, also below: complete().
  Result<optim::Updated> apply(int worker, const RowPlace& to);
  // They were applied, now or before: the worker's next task may come.
  void end(int worker);

 private:
  struct Worker {
    Worker(const Plan& plan, const Bucket& slice, const KeyShare& share)
        : round(plan, slice, share) {}

    RowRound round;                        // Of this worker alone, with one partial sum.
    std::int64_t task = -1;                // Whose rows come; -1: none.
    std::int64_t ended = -1;               // Whose came last.
    std::int64_t pulled = -1;              // For which task,
    std::size_t table = 0;                 // which table last,
    std::uint64_t seen = 0;                // after so many updates the first of them.
    std::vector<std::vector<float>> then;  // What it was answered, by table.
  };

  Worker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  Status check_task(const Header& header, int worker, const TaskProgress& progress) const;
  void compensate(Worker& from, const RowPlace& to);

  // Constant after construction.
  const std::int64_t lanes_;
  const AsyncRule rule_;
  const std::size_t slice_begin_;
  const std::size_t tables_;

  std::deque<Worker> workers_;
  std::uint64_t updates_ = 0;  // In this generation.
  std::vector<std::uint64_t> keys_;
  std::vector<float> now_;
};

}  // namespace tandem::ps
