// A worker's windows on tables that servers keep by key: before a step, or a batch of an
// evaluation, the rows that its samples name are brought into the model's parameters, in the order
// of their numbers, and the batch then names places of the window instead of rows. The model sees
// small tables. Which rows are there, and how many, changes no result.
//
// Thread-compatible; allocates nothing once it has held as many rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/arch.h"
#include "data/dataset.h"
#include "exchange/exchange.h"

namespace tandem::train {

// Rows that a job's windows need: for all lanes of a step, and for a batch of an evaluation.
std::int64_t window_rows(std::int64_t step_samples);

class Window {
 public:
  explicit Window(const arch::Blueprint& blueprint);

  // Whether the model has windows at all.
  bool is_open() const { return is_open_; }

  void clear();
  // The rows of these samples shall be there.
  void add(const data::Batch& batch);
  // All that were added since clear(), by table. Ends adding.
  const exchange::RowLists& rows();
  // The batch with places for rows; valid until the next call. REQUIRES: its rows were added, and
  // rows() was called.
  const data::Batch& place(const data::Batch& batch);

 private:
  struct Column {
    std::size_t column = 0;  // Which of a sample's inputs.
    std::vector<std::uint32_t> rows;
  };

  const bool is_open_;
  const std::size_t inputs_;         // Of a sample.
  std::vector<Column> columns_;      // That name rows.
  std::vector<std::size_t> tables_;  // By table: which of these.
  exchange::RowLists rows_;
  data::Batch placed_;
};

}  // namespace tandem::train
