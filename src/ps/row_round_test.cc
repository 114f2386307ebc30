#include "ps/row_round.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ps/row_list.h"

namespace tandem::ps {
namespace {

// Two workers; the second has two partial sums. The server holds rows 2 to 9 of table 1 alone.
Plan plan_of() {
  Plan plan;
  plan.parameters = 100;
  plan.floats = 100;
  plan.buckets = {{0, 100}, {100, 100}};
  plan.trainable = {{0, 100}};
  plan.lanes = 4;
  plan.ends = {1, 4};
  plan.pull = Pull::kPartial;
  plan.tables = {{0, 10, 2}, {20, 20, 3}};
  return plan;
}
constexpr Bucket kSlice{26, 50};

class RowRoundTest : public testing::Test {
 protected:
  RowRoundTest() {
    slice = std::move(DenseSlice::create({kSlice, 100, {{0, 100}}, {}, {}}, memory)).value();
    EXPECT_TRUE(slice->load(0, 0, 0, 24).ok());
    EXPECT_TRUE(slice->use(0).ok());
  }

  template <typename Bytes>
  Status give(int worker, Header header, const Bytes& payload) {
    header.bytes = payload.size() * sizeof(payload[0]);
    if (!payload.empty()) {
      TANDEM_ASSIGN(const std::span<std::byte> place, round.place(header, worker, slice->step()));
      std::memcpy(place.data(), payload.data(), header.bytes);
    }
    return header.kind == Kind::kRowList ? round.take_list(header, worker)
                                         : round.take_push(header, worker, slice->step());
  }
  Status list(int worker, std::uint32_t number, const RowList& rows, std::uint64_t from = 0) {
    const Header header{.kind = Kind::kRowList, .slot = number, .sequence = from};
    return give(worker, header, encode_rows(rows, from, rows.size()));
  }
  Status push(int worker, std::uint32_t partial, std::uint16_t number,
              const std::vector<float>& floats, std::uint64_t from = 0) {
    Header header = push_header;
    header.code = number;
    header.slot = partial;
    header.sequence = from;
    return give(worker, header, floats);
  }
  static std::string why(const Status& status) {
    return status.ok() ? "" : status.error().message();
  }

  std::vector<float> memory = std::vector<float>(48);
  std::unique_ptr<DenseSlice> slice;
  RowRound round{plan_of(), kSlice};
  Header push_header{.kind = Kind::kPushRows, .place = 1, .number = 0.5};
};

TEST_F(RowRoundTest, AddsWhatEveryPartialSumHasOfARow) {
  EXPECT_TRUE(list(0, 0, {2, 9}).ok());
  EXPECT_TRUE(list(1, 1, {3, 9}).ok());
  EXPECT_TRUE(list(1, 2, {}).ok());
  EXPECT_FALSE(round.is_complete());
  EXPECT_TRUE(push(0, 0, 0, {1, 2, 3}).ok());
  EXPECT_TRUE(push(0, 0, 0, {4, 5, 6}, 1).ok());
  EXPECT_TRUE(push(1, 1, 1, {7, 8, 9, 10, 11, 12}).ok());
  EXPECT_FALSE(round.is_complete());
  EXPECT_TRUE(push(1, 2, 2, {}).ok());
  ASSERT_TRUE(round.is_complete());
  slice->begin(0.5);
  EXPECT_EQ(round.apply(*slice), optim::Updated::kFinite);
  EXPECT_TRUE(round.is_used());
  slice->commit();
  round.next();
  const auto row = [&](std::size_t number) {
    const auto at = slice->parameters_at({(number - 2) * 3, (number - 1) * 3});
    return std::vector<float>(at.begin(), at.end());
  };
  EXPECT_EQ(row(2), (std::vector<float>{-0.5, -1, -1.5}));
  EXPECT_EQ(row(3), (std::vector<float>{-3.5, -4, -4.5}));
  EXPECT_EQ(row(4), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(row(9), (std::vector<float>{-7, -8, -9}));
}

TEST_F(RowRoundTest, RefusesListsThatMakeNoSense) {
  EXPECT_TRUE(list(0, 0, {2, 3, 9}).ok());
  EXPECT_TRUE(list(0, 0, {2, 3}).ok());
  EXPECT_TRUE(list(0, 0, {2, 3, 5}, 2).ok()) << "goes on";
  EXPECT_FALSE(list(0, 0, {2, 5}, 1).ok()) << "goes on elsewhere";
  EXPECT_FALSE(list(0, 0, {2, 3, 5}, 3).ok()) << "goes on with nothing";
  EXPECT_FALSE(
      give(0, {.kind = Kind::kRowList, .sequence = ~std::uint64_t{0}}, std::string("x")).ok());
  EXPECT_FALSE(list(0, 0, {2, 3, 4, 5, 6, 7, 8, 9, 10}).ok()) << "more than are held";
  EXPECT_FALSE(give(0, {.kind = Kind::kRowList}, std::string(41, '\0')).ok());
  EXPECT_FALSE(give(0, {.kind = Kind::kRowList}, std::string("\x80")).ok());
  EXPECT_FALSE(list(0, 2, {2}).ok()) << "it has one partial sum";
  EXPECT_TRUE(list(1, 2, {2}).ok());
}

TEST_F(RowRoundTest, RefusesRowsThatItDoesNotHold) {
  const Header pull{.kind = Kind::kPullRows, .place = 1};
  for (const RowList& rows : {RowList{1, 2}, {9, 10}}) {
    EXPECT_TRUE(list(0, 0, rows).ok()) << "it may be for another table";
    EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}).ok());
    const auto pulled = round.take_pull(pull, 0, 0);
    ASSERT_FALSE(pulled.ok());
    EXPECT_NE(pulled.error().message().find("2 to 9 of table 1"), std::string::npos);
  }
}

TEST_F(RowRoundTest, RefusesPushesThatAreNotDue) {
  EXPECT_TRUE(list(0, 0, {2, 3}).ok());
  EXPECT_FALSE(push(0, 1, 0, {1, 2, 3}).ok()) << "another's partial sum";
  EXPECT_FALSE(push(0, 9, 0, {1, 2, 3}).ok());
  EXPECT_FALSE(push(0, 0, 5, {1, 2, 3}).ok()) << "no such list";
  EXPECT_FALSE(push(0, 0, 0, {1, 2}).ok()) << "half a row";
  EXPECT_FALSE(push(0, 0, 0, {}).ok());
  EXPECT_FALSE(push(0, 0, 0, std::vector<float>(9)).ok()) << "more than the list";
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}, 1).ok()) << "the first is missing";
  push_header.step = 1;
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}).ok());
  push_header = {.kind = Kind::kPushRows, .place = 0, .number = 0.5};
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}).ok()) << "a table that is not here";
  push_header = {.kind = Kind::kPushRows, .place = 1, .number = -1};
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}).ok()) << "a negative rate";
  push_header.number = 0.5;
  EXPECT_TRUE(push(0, 0, 0, {1, 2, 3}).ok());
  EXPECT_TRUE(list(0, 1, {2, 3}).ok());
  EXPECT_FALSE(push(0, 0, 1, {1, 2, 3}, 1).ok()) << "another list";
  EXPECT_FALSE(list(0, 0, {4}).ok()) << "it is in use";
  push_header.number = 0.25;
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}, 1).ok()) << "another rate";
  push_header.number = 0.5;
  EXPECT_TRUE(push(0, 0, 0, {1, 2, 3}, 1).ok());
  EXPECT_FALSE(push(0, 0, 0, {1, 2, 3}, 2).ok()) << "it has all";
}

TEST_F(RowRoundTest, RefusesGradientsThatAreNoNumbers) {
  EXPECT_TRUE(list(0, 0, {2, 7}).ok());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::string refused = why(push(0, 0, 0, {1, 2, 3, 4, bad, 6}));
    EXPECT_NE(refused.find("row 7 of table 1"), std::string::npos) << refused;
  }
}

TEST_F(RowRoundTest, GivesRowsOnceAStep) {
  EXPECT_TRUE(list(0, 0, {2, 7}).ok());
  const Header pull{.kind = Kind::kPullRows, .place = 1};
  const auto rows = round.take_pull(pull, 0, 0);
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  EXPECT_EQ(RowList(rows->rows.begin(), rows->rows.end()), (RowList{2, 7}));
  EXPECT_EQ(rows->range.at(7), 20U + 7 * 3);
  EXPECT_FALSE(round.take_pull(pull, 0, 0).ok());
  EXPECT_TRUE(round.take_pull(pull, 1, 0).ok());
  round.next();
  EXPECT_FALSE(round.take_pull(pull, 0, 1).ok()) << "a step too late";
  EXPECT_FALSE(round.take_pull({.kind = Kind::kPullRows, .step = 1}, 0, 1).ok()) << "table 0";
  EXPECT_FALSE(
      round.take_pull({.kind = Kind::kPullRows, .slot = 9, .step = 1, .place = 1}, 0, 1).ok());
  EXPECT_TRUE(round.take_pull({.kind = Kind::kPullRows, .step = 1, .place = 1}, 0, 1).ok());
}

}  // namespace
}  // namespace tandem::ps
