// How a server's rows of tables change in a step: adds the partial sums of every row in the lanes'
// order and updates the slice. A row that a partial sum does not have counts as zero in it, and is
// added as such: the sums have the bits of whole gradients.
//
// Where a gradient of zero changes nothing, only rows that somebody touched are updated; else all
// are, as with whole gradients. Pure arithmetic; belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/tree.h"
#include "optim/optimizer.h"
#include "ps/dense_slice.h"
#include "ps/plan.h"
#include "ps/table_set.h"
#include "ps/tables.h"

namespace tandem::ps {

// What one partial sum has of a table: rows in order, and a gradient for each.
struct RowGradients {
  std::span<const std::uint32_t> rows;
  const float* floats = nullptr;
};

// Where in a slice an update goes.
enum class Into : std::uint8_t {
  kNext,   // The next state: its step has begun.
  kPlace,  // The present one, where workers do not wait for each other: the arrival has begun.
};

class RowUpdate {
 public:
  RowUpdate(const Plan& plan, const Bucket& slice, const KeyShare& share = {});

  // The rows that the server holds, table by table.
  const std::vector<RowRange>& ranges() const { return ranges_; }

  // Takes the memory that an update of so many rows needs, so that apply() of a slice takes none.
  void make_room(std::size_t range, std::span<const RowGradients> partials);
  // Updates the rows of a range, given by partial sum.
  optim::Updated apply(std::size_t range, std::span<const RowGradients> partials, DenseSlice& slice,
                       Into into = Into::kNext);

  // The same for rows that are held by key, in the step that the tables have begun.
  Result<optim::Updated> apply(std::size_t range, std::span<const RowGradients> partials,
                               TableSet& tables);

  // The same in two turns, with something between them. `sums` are those of the whole slice; what
  // nobody touched is zero in them.
  void sum(std::size_t range, std::span<const RowGradients> partials, std::span<float> sums);
  optim::Updated apply_sums(std::size_t range, std::span<float> sums, DenseSlice& slice);

 private:
  // The rows that any partial sum has become those that are touched.
  void merge(std::size_t range, std::span<const RowGradients> partials);
  // Adds up so many touched rows, one after another in sums_.
  void sum_some(std::size_t range, std::span<const RowGradients> partials,
                std::span<const std::uint32_t> rows);
  optim::Updated apply_touched(std::size_t range, std::span<const RowGradients> partials,
                               DenseSlice& slice, Into into);
  optim::Updated apply_all(std::size_t range, std::span<const RowGradients> partials,
                           DenseSlice& slice, Into into);
  // What the last step wrote is in one of the slice's states only.
  void keep_last(std::size_t range, DenseSlice& slice);
  Bucket place_of(const RowRange& range, std::size_t row) const;

  // Constant after construction.
  const std::vector<RowRange> ranges_;
  const std::vector<collective::Partial> partials_;
  const std::int64_t lanes_;
  const std::size_t slice_begin_;
  const bool only_touched_;
  const optim::ClipConfig clip_;

  std::vector<RowList> touched_;  // By range: in this step, then in the last.
  std::vector<RowList> before_;   // The same for the step before, while one is under way.
  RowList merged_;
  std::vector<std::size_t> cursors_;  // By partial sum: rows that were added.
  // Of some rows: by partial sum, where each begins, and the sums.
  std::vector<float> gradients_, sums_, chunk_;
  std::vector<const float*> sources_;
  // Of all rows that are held by key.
  std::vector<std::uint64_t> keys_;
  std::vector<float> key_sums_;
};

}  // namespace tandem::ps
