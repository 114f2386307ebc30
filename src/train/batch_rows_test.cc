#include "train/batch_rows.h"

#include <gtest/gtest.h>

namespace tandem::train {
namespace {

// Samples of three inputs, of which the first and the last name rows.
arch::Blueprint blueprint_of() {
  arch::Blueprint blueprint;
  blueprint.interface.input_shape = {3};
  blueprint.slots.resize(3);
  blueprint.slots[0].size = 40;
  blueprint.slots[1].offset = 40;
  blueprint.slots[1].size = 20;
  blueprint.slots[2].offset = 60;
  blueprint.slots[2].size = 7;
  blueprint.tables = {{.slot = 0, .rows = 10, .width = 4, .column = 0},
                      {.slot = 1, .rows = 20, .width = 1, .column = 2}};
  blueprint.parameters = 67;
  return blueprint;
}

data::Batch batch_of(std::vector<float> inputs) {
  data::Batch batch;
  batch.size = static_cast<std::int64_t>(inputs.size()) / 3;
  batch.inputs = std::move(inputs);
  return batch;
}

using Lists = std::vector<exchange::RowLists>;

Lists lists_of(BatchRows& rows) {
  const auto lists = rows.lists();
  return {lists.begin(), lists.end()};
}

TEST(BatchRows, AreThoseOfEachPartialSum) {
  const std::vector<optim::Range> all = {{0, 67}};
  BatchRows rows(blueprint_of(), all);
  EXPECT_EQ(rows.tables(), (std::vector<exchange::Table>{{0, 10, 4}, {40, 20, 1}}));
  rows.clear(2);
  rows.add(batch_of({7, 0.5, 3, 2, 0.5, 19, 7, 9, 3}), 0);
  rows.add(batch_of({1, 0, 4}), 1);
  rows.add(batch_of({}), 1);
  rows.add(batch_of({0, 0, 4}), 1);
  EXPECT_EQ(lists_of(rows), (Lists{{{2, 7}, {3, 19}}, {{0, 1}, {4}}}));
  rows.clear(1);
  EXPECT_EQ(lists_of(rows), (Lists{{{}, {}}}));
}

TEST(BatchRows, LeaveOutTablesThatAreFrozen) {
  const std::vector<optim::Range> some = {{40, 67}};
  BatchRows rows(blueprint_of(), some);
  EXPECT_EQ(rows.tables(), (std::vector<exchange::Table>{{40, 20, 1}}));
  rows.clear(1);
  rows.add(batch_of({7, 0.5, 3}), 0);
  EXPECT_EQ(lists_of(rows), (Lists{{{3}}}));
}

}  // namespace
}  // namespace tandem::train
