#include "ps/scope.h"

#include <gtest/gtest.h>

#include <array>

#include "optim/clip.h"

namespace tandem::ps {
namespace {

// 10,000 parameters and 10 sums, in three buckets.
Plan plan_of(std::vector<optim::Range> trainable, std::vector<Table> tables = {}) {
  Plan plan;
  plan.floats = 10'010;
  plan.parameters = 10'000;
  plan.buckets = {{5'000, 10'000}, {0, 5'000}, {10'000, 10'010}};
  plan.trainable = std::move(trainable);
  plan.pull = Pull::kPartial;
  plan.tables = std::move(tables);
  plan.lanes = 1;
  plan.ends = {1};
  return plan;
}

std::vector<std::array<std::size_t, 3>> numbers(const std::vector<Piece>& pieces) {
  std::vector<std::array<std::size_t, 3>> all;
  for (const Piece& piece : pieces) all.push_back({piece.begin, piece.end, piece.bucket});
  return all;
}

using Numbers = std::vector<std::array<std::size_t, 3>>;

TEST(Scope, LeavesOutWhatIsNotTrained) {
  const Plan plan = plan_of({{100, 200}, {4'000, 6'000}});
  EXPECT_EQ(numbers(pieces_of(plan, {0, plan.floats})),
            (Numbers{{5'000, 6'000, 0}, {100, 200, 1}, {4'000, 5'000, 1}, {10'000, 10'010, 2}}));
}

TEST(Scope, IsEverythingWhereAllIsPulled) {
  Plan plan = plan_of({{100, 200}});
  plan.pull = Pull::kFull;
  EXPECT_EQ(numbers(pieces_of(plan, {0, plan.floats})),
            (Numbers{{5'000, 10'000, 0}, {0, 5'000, 1}, {10'000, 10'010, 2}}));
}

TEST(Scope, GivesAServerOfFrozenParametersAFloatAStep) {
  const Plan plan = plan_of({{100, 200}});
  EXPECT_EQ(numbers(pieces_of(plan, {2'048, 4'096})), (Numbers{{2'048, 2'049, 1}}));
  EXPECT_TRUE(pieces_of(plan, {2'048, 2'048}).empty());
}

TEST(Scope, LeavesTablesToTheirRows) {
  const Plan plan = plan_of({{0, 10'000}}, {{0, 300, 7}, {2'200, 100, 3}});
  EXPECT_EQ(
      numbers(pieces_of(plan, {0, plan.floats})),
      (Numbers{{5'000, 10'000, 0}, {2'100, 2'200, 1}, {2'500, 5'000, 1}, {10'000, 10'010, 2}}));
  EXPECT_TRUE(pieces_of(plan, {700, 1'400}).empty());
}

TEST(Scope, SplitsNoRow) {
  for (const auto& [servers, norm] :
       {std::pair(1U, 0.0), {2U, 0.0}, {3U, 0.0}, {7U, 0.0}, {2U, 1.0}, {7U, 1.0}}) {
    Plan plan = plan_of({{0, 10'000}}, {{10, 700, 7}, {5'000, 40, 100}});
    plan.clip.norm = norm;
    std::size_t end = 0, rows = 0;
    for (const Bucket& slice : slices_of(plan, servers)) {
      EXPECT_EQ(slice.begin, end);
      end = slice.end;
      EXPECT_TRUE(norm == 0 || end == plan.floats || end % optim::kSquaresBlock == 0) << end;
      for (const RowRange& range : rows_in(slice, plan.tables)) {
        EXPECT_EQ(range.begin, plan.tables[range.table].begin + range.first * range.width);
        rows += range.last - range.first;
      }
    }
    EXPECT_EQ(end, plan.floats);
    EXPECT_EQ(rows, 740U);
  }
}

TEST(Scope, RefusesMoreListsOfRowsThanCanBeToldApart) {
  std::vector<Table> tables;
  for (std::size_t i = 0; i < 1'000; ++i) tables.push_back({i, 1, 1});
  Plan plan = plan_of({{0, 9'000}}, tables);
  // All lanes but the first and the last have two partial sums on each level of the tree.
  const auto refused = [&](int levels) {
    plan.lanes = std::int64_t{1} << levels;
    plan.ends = {1, plan.lanes - 1, plan.lanes};
    return !from_wire(to_wire(plan, {}, 1)).ok();
  };
  EXPECT_FALSE(refused(30));
  EXPECT_TRUE(refused(40));
}

TEST(Scope, RefusesTablesThatMakeNoSense) {
  const auto is_refused = [](const Plan& plan) { return !from_wire(to_wire(plan, {}, 1)).ok(); };
  const auto with = [](std::vector<Table> tables) {
    return plan_of({{0, 9'000}}, std::move(tables));
  };
  EXPECT_FALSE(is_refused(with({{0, 10, 100}, {1'000, 80, 100}})));
  EXPECT_EQ(from_wire(to_wire(with({{0, 10, 100}}), {}, 1))->tables,
            (std::vector<Table>{{0, 10, 100}}));
  EXPECT_TRUE(is_refused(with({{0, 0, 100}})));
  EXPECT_TRUE(is_refused(with({{0, 10, 0}})));
  EXPECT_TRUE(is_refused(with({{0, 10, 100}, {999, 80, 100}})));
  EXPECT_TRUE(is_refused(with({{0, std::size_t{1} << 32, std::size_t{1} << 32}})));
  EXPECT_TRUE(is_refused(with({{8'999, 1, 2}}))) << "not trained";
  Plan plan = with({{0, 10, 100}});
  plan.pull = Pull::kFull;
  EXPECT_TRUE(is_refused(plan));
  EXPECT_TRUE(is_refused(with({{0, 1, 70'000}}))) << "too wide";
}

}  // namespace
}  // namespace tandem::ps
