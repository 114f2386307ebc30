// One step of the rows of tables at a server: which rows each partial sum has pushed, and what
// becomes of them (ps/row_update.h) once all have come.
//
// A worker registers lists of rows and then names them by number: it pulls the rows of a list
// before it computes, and pushes the gradients of a list afterwards. Lists stay until they are
// replaced, so one that is the same in the next step is not sent again.
//
// Nothing that comes is believed: rows must be held here, sizes must fit, gradients must be finite.
// A worker's memory here is bounded by the rows that the server holds. Knows no sockets; belongs to
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/tree.h"
#include "ps/dense_slice.h"
#include "ps/message.h"
#include "ps/plan.h"
#include "ps/row_update.h"
#include "ps/tables.h"

namespace tandem::ps {

// Floats of a message of rows, about: at least one row.
inline constexpr std::size_t kRowFloats = std::size_t{1} << 18;

class RowRound {
 public:
  RowRound(const Plan& plan, const Bucket& slice, const KeyShare& share = {});

  // Whether the server holds any row.
  bool is_empty() const { return ranges_.empty(); }

  // Where the payload of a list or of gradients goes; `steps_done` is the server's.
  // kInvalidArgument says what is wrong with the message.
  Result<std::span<std::byte>> place(const Header& header, int worker, std::int64_t steps_done);
  // It is there.
  Status take_list(const Header& header, int worker);
  Status take_push(const Header& header, int worker, std::int64_t steps_done);
  // The rows of a list that the worker may pull now. Once in a step for each table, but where rows
  // are held by key: then a worker has no others, and evaluations pull, too.
  struct Pull {
    RowRange range;
    std::span<const std::uint32_t> rows;
  };
  Result<Pull> take_pull(const Header& header, int worker, std::int64_t steps_done);

  // The learning rate that comes with the pushes; nothing before the first.
  std::optional<double> lr() const { return lr_; }
  // Whether the gradients of all partial sums are there, and were not used yet.
  bool is_complete() const;
  bool is_used() const { return used_; }
  // Updates the rows. REQUIRES, here and below: is_complete().
  optim::Updated apply(DenseSlice& slice, Into into = Into::kNext);
  // The same for rows that are held by key, in the step that the tables have begun.
  Result<optim::Updated> apply(TableSet& tables);
  // What a partial sum has of each table.
  struct Gradient {
    const RowRange& range;
    std::span<const std::uint32_t> rows;
    std::span<float> floats;
  };
  std::vector<Gradient> gradients_of(std::size_t partial);
  // The same in two turns: `sums` are those of the whole slice (ps/row_update.h).
  void sum(std::span<float> sums);
  optim::Updated apply_sums(std::span<float> sums, DenseSlice& slice);

  // The step is over.
  void next();

 private:
  // Gradients of one partial sum for one table.
  struct Push {
    const RowList* rows = nullptr;  // Null until it begins.
    std::size_t came = 0;           // Rows.
    std::vector<float> floats;

    bool is_whole() const { return rows != nullptr && came == rows->size(); }
  };
  // What one worker has said.
  struct Worker {
    std::vector<RowList> lists;  // By number.
    std::vector<std::byte> coming;
    std::vector<bool> pulled;  // By range.
  };

  Result<std::size_t> range_of(const Header& header) const;
  Result<RowList*> list_of(std::uint64_t number, int worker);
  // A list whose rows are all of the range.
  Result<const RowList*> rows_of(std::uint64_t number, std::size_t range, int worker);
  Status check_list(const Header& header, const RowList& list) const;
  Result<Push*> push_of(const Header& header, int worker, std::int64_t steps_done);
  // Of all partial sums, which are whole.
  std::span<const RowGradients> gradients(std::size_t range);

  RowUpdate update_;

  // Constant after construction.
  const std::vector<RowRange> ranges_;
  const std::vector<collective::Partial> partials_;
  std::size_t most_rows_ = 0;  // Of a list.

  std::vector<Worker> workers_;
  std::vector<Push> pushes_;  // By partial sum, then range.
  std::optional<double> lr_;
  bool used_ = false;  // What came was applied or summed.
  std::vector<RowGradients> gradients_;
};

}  // namespace tandem::ps
