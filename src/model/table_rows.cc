#include "model/table_rows.h"

#include <cstring>

#include "base/check.h"

namespace tandem::model {

TableRows::TableRows(const arch::Blueprint& blueprint, const arch::Table& table,
                     const Activation& in)
    : in_(in),
      column_(table.column),
      offset_(blueprint.slots[static_cast<std::size_t>(table.slot)].offset),
      count_(table.rows),
      width_(table.width),
      rows_(static_cast<std::size_t>(in.rows())) {}

void TableRows::find() {
  const float* id = in_.value + column_;
  for (std::int64_t& row : rows_) {
    TANDEM_CHECK(*id >= 0 && *id < static_cast<float>(count_));
    row = static_cast<std::int64_t>(*id);
    id += in_.columns();
  }
}

void TableRows::clear(float* gradients) const {
  std::memset(gradients + offset_, 0, static_cast<std::size_t>(count_ * width_) * sizeof(float));
}

}  // namespace tandem::model
