// Which rows of a model's tables the batches of a step touch, for exchanges that move rows alone
// (exchange/exchange.h). A list for each partial sum of this worker and each trained table.
//
// Thread-compatible; allocates nothing once it has held as many rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/arch.h"
#include "data/dataset.h"
#include "exchange/exchange.h"
#include "optim/range.h"

namespace tandem::train {

class BatchRows {
 public:
  // Tables that are frozen are left out.
  BatchRows(const arch::Blueprint& blueprint, std::span<const optim::Range> trainable);

  // In the flat vector, in its order.
  const std::vector<exchange::Table>& tables() const { return tables_; }

  // A step begins, with so many partial sums.
  void clear(std::size_t partials);
  // The samples of a batch that goes into a partial sum.
  void add(const data::Batch& batch, std::size_t partial);
  // All that were added since clear(), by partial sum.
  std::span<const exchange::RowLists> lists();

 private:
  const std::int64_t inputs_;  // Of a sample.
  std::vector<exchange::Table> tables_;
  std::vector<std::size_t> columns_;  // By table: which input names the row.
  std::vector<exchange::RowLists> lists_;
};

}  // namespace tandem::train
