#include "ps/round.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::ps {
namespace {

// Two workers with one partial sum each, and pieces of 10, 20 and 5 floats.
Round two_workers() {
  return Round({{0, 10, 0}, {10, 30, 0}, {30, 35, 1}}, {{{0, 1}, 0}, {{1, 2}, 1}});
}

Header push(std::uint32_t slot, std::uint64_t place, std::uint64_t floats, double lr = 0.1) {
  return {.kind = Kind::kPush,
          .slot = slot,
          .step = 4,
          .place = place,
          .bytes = 4 * floats,
          .number = lr};
}

TEST(Round, APieceIsCompleteWhenTheSlowestHasPushedIt) {
  Round round = two_workers();
  const std::vector<float> floats(35);
  for (const auto& [slot, place, count] : {std::tuple(0U, 0UL, 10UL), {0U, 1UL, 20UL}}) {
    ASSERT_TRUE(round.check(push(slot, place, count), slot, 4).ok());
    round.add(push(slot, place, count), floats.data());
  }
  EXPECT_TRUE(round.complete().empty());
  round.add(push(1, 0, 10), floats.data() + 1);
  ASSERT_EQ(round.complete().size(), 1U);
  EXPECT_EQ(round.complete()[0], 0U);
  EXPECT_EQ(round.sources(0)[0], floats.data());
  EXPECT_EQ(round.sources(0)[1], floats.data() + 1);
  round.next();
  EXPECT_TRUE(round.complete().empty());
  EXPECT_FALSE(round.lr().has_value());
}

TEST(Round, TakesPiecesInAnyOrder) {
  Round round = two_workers();
  const std::vector<float> floats(35);
  for (const auto& [slot, place, count] :
       {std::tuple(0U, 2UL, 5UL), {1U, 1UL, 20UL}, {0U, 1UL, 20UL}, {1U, 2UL, 5UL}}) {
    ASSERT_TRUE(round.check(push(slot, place, count), slot, 4).ok());
    round.add(push(slot, place, count), floats.data() + slot);
  }
  const auto complete = round.complete();
  EXPECT_EQ(std::vector(complete.begin(), complete.end()), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(round.sources(2)[0], floats.data());
  EXPECT_EQ(round.sources(2)[1], floats.data() + 1);
  round.next();
  EXPECT_TRUE(round.check(push(0, 2, 5), 0, 4).ok()) << "of the next step";
}

TEST(Round, RefusesPushesThatAreNotDue) {
  Round round = two_workers();
  const auto refused = [&](const Header& header, std::int64_t worker) {
    const Status status = round.check(header, worker, 4);
    return !status.ok() && status.error().code() == Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused(push(0, 0, 10), 0));
  EXPECT_TRUE(refused(push(0, 0, 10), 1)) << "another worker's partial sum";
  EXPECT_TRUE(refused(push(2, 0, 10), 0)) << "no such partial sum";
  EXPECT_TRUE(refused(push(0, 3, 10), 0)) << "no such piece";
  EXPECT_TRUE(refused(push(0, 0, 11), 0)) << "another size";
  EXPECT_TRUE(refused(push(0, 0, 10, NAN), 0));
  EXPECT_TRUE(refused(push(0, 0, 10, -1), 0));
  Header late = push(0, 0, 10);
  late.step = 3;
  EXPECT_TRUE(refused(late, 0)) << "a step that is over";
  round.add(push(0, 0, 10), nullptr);
  EXPECT_TRUE(refused(push(1, 0, 10, 0.2), 1)) << "another learning rate than the others";
  EXPECT_TRUE(refused(push(0, 0, 10), 0)) << "twice the same";
}

}  // namespace
}  // namespace tandem::ps
