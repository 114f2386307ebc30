// One table inside a plan: which of its rows each sample of the batch uses, and where they are in
// the flat vectors. Internal to src/model/; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/arch.h"
#include "model/layer.h"

namespace tandem::model {

class TableRows {
 public:
  // For batches of as many samples as `in` has.
  TableRows(const arch::Blueprint& blueprint, const arch::Table& table, const Activation& in);

  // Notes the rows of the batch that is in `in`. REQUIRES: every id is a row of the table; data/
  // refuses others.
  void find();

  std::size_t width() const { return static_cast<std::size_t>(width_); }
  // The row of a sample, in parameters or gradients.
  template <typename Float>
  Float* row(Float* flat, std::int64_t sample) const {
    return flat + offset_ + rows_[static_cast<std::size_t>(sample)] * width_;
  }

  // Makes the whole table's gradient 0, for samples to add to.
  void clear(float* gradients) const;

 private:
  const Activation in_;
  const std::int64_t column_, offset_, count_, width_;
  std::vector<std::int64_t> rows_;  // By sample.
};

}  // namespace tandem::model
