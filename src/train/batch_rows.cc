#include "train/batch_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace tandem::train {

BatchRows::BatchRows(const arch::Blueprint& blueprint, std::span<const optim::Range> trainable)
    : inputs_(std::accumulate(blueprint.interface.input_shape.begin(),
                              blueprint.interface.input_shape.end(), std::int64_t{1},
                              std::multiplies<>())) {
  for (const arch::Table& table : blueprint.tables) {
    const arch::Slot& slot = blueprint.slots[static_cast<std::size_t>(table.slot)];
    const bool trained =
        std::any_of(trainable.begin(), trainable.end(), [&](const optim::Range& range) {
          return range.begin <= slot.offset && slot.offset + slot.size <= range.end;
        });
    if (!trained) continue;
    tables_.push_back({static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(table.rows),
                       static_cast<std::size_t>(table.width)});
    columns_.push_back(static_cast<std::size_t>(table.column));
  }
}

void BatchRows::clear(std::size_t partials) {
  lists_.resize(partials);
  for (exchange::RowLists& lists : lists_) {
    lists.resize(tables_.size());
    for (auto& list : lists) list.clear();
  }
}

void BatchRows::add(const data::Batch& batch, std::size_t partial) {
  TANDEM_CHECK(partial < lists_.size());
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    auto& list = lists_[partial][table];
    for (std::int64_t sample = 0; sample < batch.size; ++sample) {
      const auto at = static_cast<std::size_t>(sample * inputs_) + columns_[table];
      list.push_back(static_cast<std::uint32_t>(batch.inputs[at]));
    }
  }
}

std::span<const exchange::RowLists> BatchRows::lists() {
  for (exchange::RowLists& lists : lists_) {
    for (auto& list : lists) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
  return lists_;
}

}  // namespace tandem::train
