#include "train/window.h"

#include <gtest/gtest.h>

#include "train/evaluate.h"

namespace tandem::train {
namespace {

// Of five inputs the second and the fourth name rows; each has an embedding and a weight.
arch::Blueprint blueprint_of(std::int64_t window) {
  const arch::Interface interface {
    .input_shape = {5}, .outputs = 3, .ids = { {1, 1000}, {3, 4} }
  };
  const auto blueprint =
      arch::build_with_window({.kind = "wide_deep", .hidden = {6}, .dim = 2}, interface, window);
  EXPECT_TRUE(blueprint.ok());
  return *blueprint;
}

TEST(Window, IsAsLargeAsAStepOrAnEvaluationNeeds) {
  EXPECT_EQ(window_rows(4), kEvaluationBatch);
  EXPECT_EQ(window_rows(5000), 5000);
}

TEST(Window, ComesFirstInTheVectorAndIsNoLargerThanItsTable) {
  const arch::Blueprint blueprint = blueprint_of(100);
  ASSERT_EQ(blueprint.tables.size(), 4U);
  EXPECT_EQ(blueprint.tables[0].rows, 100);
  EXPECT_EQ(blueprint.tables[0].all_rows, 1000);
  EXPECT_EQ(blueprint.tables[1].rows, 4);
  EXPECT_EQ(blueprint.tables[1].all_rows, 4);
  EXPECT_EQ(blueprint.window, (100 + 4) * (2 + 3));
  EXPECT_EQ(blueprint.slots[4].offset, blueprint.window);
}

TEST(Window, GivesRowsPlacesInTheOrderOfTheirNumbers) {
  Window window(blueprint_of(100));
  ASSERT_TRUE(window.is_open());
  const data::Batch first{.size = 2, .inputs = {.5, 900, .5, 3, .5, .25, 7, .25, 0, .25}};
  const data::Batch second{.size = 1, .inputs = {1, 7, 1, 3, 1}, .classes = {2}};
  window.add(first);
  window.add(second);
  EXPECT_EQ(window.rows(), (exchange::RowLists{{7, 900}, {0, 3}, {7, 900}, {0, 3}}));
  EXPECT_EQ(window.place(first).inputs,
            (std::vector<float>{.5, 1, .5, 1, .5, .25, 0, .25, 0, .25}));
  EXPECT_EQ(window.place(second).inputs, (std::vector<float>{1, 0, 1, 1, 1}));
  EXPECT_EQ(window.place(second).classes, (std::vector<std::int32_t>{2}));
  window.clear();
  window.add(second);
  EXPECT_EQ(window.rows(), (exchange::RowLists{{7}, {3}, {7}, {3}}));
}

TEST(Window, IsShutWhereTheModelHasItsTables) {
  const arch::Interface interface {
    .input_shape = {2}, .outputs = 1, .ids = { {0, 9}, {1, 9} }
  };
  const auto blueprint = arch::build({.kind = "matrix_factorization", .dim = 2}, interface);
  ASSERT_TRUE(blueprint.ok());
  EXPECT_EQ(blueprint->window, 0);
  EXPECT_EQ(blueprint->tables[0].all_rows, 9);
  EXPECT_FALSE(Window(*blueprint).is_open());
}

}  // namespace
}  // namespace tandem::train
