#include "train/window.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "train/evaluate.h"

namespace tandem::train {

std::int64_t window_rows(std::int64_t step_samples) {
  return std::max(step_samples, kEvaluationBatch);
}

Window::Window(const arch::Blueprint& blueprint)
    : is_open_(blueprint.window > 0),
      inputs_(static_cast<std::size_t>(std::accumulate(blueprint.interface.input_shape.begin(),
                                                       blueprint.interface.input_shape.end(),
                                                       std::int64_t{1}, std::multiplies<>()))) {
  if (!is_open_) return;
  for (const arch::Table& table : blueprint.tables) {
    const auto column = static_cast<std::size_t>(table.column);
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const Column& each) { return each.column == column; });
    tables_.push_back(static_cast<std::size_t>(found - columns_.begin()));
    if (found == columns_.end()) columns_.push_back({column, {}});
  }
  rows_.resize(tables_.size());
}

void Window::clear() {
  for (Column& column : columns_) column.rows.clear();
}

void Window::add(const data::Batch& batch) {
  for (Column& column : columns_) {
    for (std::int64_t sample = 0; sample < batch.size; ++sample) {
      const std::size_t at = static_cast<std::size_t>(sample) * inputs_ + column.column;
      column.rows.push_back(static_cast<std::uint32_t>(batch.inputs[at]));
    }
  }
}

const exchange::RowLists& Window::rows() {
  for (Column& column : columns_) {
    std::sort(column.rows.begin(), column.rows.end());
    column.rows.erase(std::unique(column.rows.begin(), column.rows.end()), column.rows.end());
  }
  for (std::size_t table = 0; table < tables_.size(); ++table)
    rows_[table] = columns_[tables_[table]].rows;
  return rows_;
}

const data::Batch& Window::place(const data::Batch& batch) {
  placed_ = batch;
  for (const Column& column : columns_) {
    for (std::int64_t sample = 0; sample < batch.size; ++sample) {
      float& id = placed_.inputs[static_cast<std::size_t>(sample) * inputs_ + column.column];
      const auto row =
          std::lower_bound(column.rows.begin(), column.rows.end(), static_cast<std::uint32_t>(id));
      TANDEM_CHECK(row != column.rows.end() && *row == static_cast<std::uint32_t>(id));
      id = static_cast<float>(row - column.rows.begin());
    }
  }
  return placed_;
}

}  // namespace tandem::train
