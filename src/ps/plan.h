// What the workers and servers of a generation agree on before they exchange anything: how the
// vector is cut, who computes which lanes, and how the servers update. Comes from a worker, so
// nothing in it is believed before it was checked. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/tree.h"
#include "ps/arrivals.h"
#include "ps/dense_slice.h"
#include "ps/pieces.h"
#include "ps/table_set.h"
#include "ps/tables.h"
#include "wire/ps.pb.h"

namespace tandem::ps {

// How many servers hold a slice at most.
inline constexpr std::size_t kMostCopies = 8;

// The same at every worker.
struct Plan {
  std::uint64_t generation = 0;
  std::size_t floats = 0;      // Of the vector that is exchanged,
  std::size_t parameters = 0;  // of which these come first.
  std::vector<Bucket> buckets;
  std::vector<optim::Range> trainable;
  optim::OptimizerConfig optimizer;
  optim::ClipConfig clip;
  std::int64_t lanes = 1;
  collective::LaneEnds ends;  // By worker.
  // Workers do not wait for each other, and pushes are applied as they arrive; nothing: in step.
  std::optional<AsyncRule> async = {};
  std::size_t replicas = 1;  // Servers that hold each slice.
  Pull pull = Pull::kFull;
  // Ascending, each trained as a whole; only with kPartial.
  std::vector<Table> tables;
  // Where servers keep these by key: one for each. They are then windows, the first of the vector,
  // and no part of any slice.
  std::vector<SparseRows> sparse = {};
  std::int64_t admit_after = 0, evict_after = 0;  // ps/sparse_table.h.

  bool is_sparse() const { return !sparse.empty(); }
  // Floats before this one are in no slice.
  std::size_t first() const { return is_sparse() ? tables.back().end() : 0; }
  std::size_t workers() const { return ends.size(); }
};

// Copy `copy` of slice `slice` of `servers`. Server number (slice + copy) % servers holds it.
struct SliceCopy {
  std::size_t slice = 0, copy = 0;

  std::size_t server(std::size_t servers) const { return (slice + copy) % servers; }
};
wire::PsPlan to_wire(const Plan& plan, const SliceCopy& which, std::size_t servers);
// kInvalidArgument says what is wrong with it.
Result<Plan> from_wire(const wire::PsPlan& message);

// What slice number `slice` of `servers` is.
SliceConfig slice_of(const Plan& plan, std::size_t slice, std::size_t servers);
// The tables that go with that slice, kept by key; none where the plan has none.
TableSetConfig tables_of(const Plan& plan, std::size_t slice, std::size_t servers);
// Whether a state that was made for one can go on as the other.
bool is_same_slice(const SliceConfig& a, const SliceConfig& b);

}  // namespace tandem::ps
