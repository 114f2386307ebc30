#include "ps/push_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::ps {
namespace {

// Two pieces in the first bucket, one in the second, two in the third.
const std::vector<Piece> kPieces = {
    {40, 50, 0}, {50, 60, 0}, {30, 40, 1}, {10, 20, 2}, {20, 30, 2}};

std::vector<std::size_t> all_of(PushOrder& order, Overtaking overtaking) {
  std::vector<std::size_t> pieces;
  while (const auto piece = order.next(overtaking)) {
    order.take(*piece);
    pieces.push_back(*piece);
  }
  return pieces;
}

TEST(PushOrder, IsThatOfBecomingReady) {
  PushOrder order(kPieces);
  order.begin();
  EXPECT_FALSE(order.next(Overtaking::kNever));
  order.set_ready(1);
  EXPECT_EQ(all_of(order, Overtaking::kNever), (std::vector<std::size_t>{0, 1}));
  EXPECT_FALSE(order.is_done());
  order.set_ready(3);
  EXPECT_EQ(all_of(order, Overtaking::kNever), (std::vector<std::size_t>{2, 3, 4}));
  EXPECT_TRUE(order.is_done());
}

TEST(PushOrder, LetsTheNewestBucketOvertakeWhatWaits) {
  PushOrder order(kPieces);
  order.begin();
  order.set_ready(1);
  order.take(*order.next(Overtaking::kLastReadyFirst));
  order.set_ready(2);
  EXPECT_EQ(order.next(Overtaking::kLastReadyFirst), 2U);
  order.set_ready(3);
  EXPECT_EQ(all_of(order, Overtaking::kLastReadyFirst), (std::vector<std::size_t>{3, 4, 2, 1}));
  EXPECT_TRUE(order.is_done());
}

TEST(PushOrder, BeginsAnewWithEachStep) {
  PushOrder order(kPieces);
  order.begin();
  order.set_ready(2);
  order.begin();
  EXPECT_FALSE(order.next(Overtaking::kNever));
  order.set_ready(3);
  EXPECT_EQ(all_of(order, Overtaking::kNever).size(), kPieces.size());
  order.skip();
  EXPECT_TRUE(order.is_done());
}

}  // namespace
}  // namespace tandem::ps
