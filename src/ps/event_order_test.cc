#include "ps/event_order.h"

#include <gtest/gtest.h>

namespace tandem::ps {
namespace {

EventOrder::Event push(std::uint64_t number, std::uint64_t peer, std::uint64_t piece) {
  return {peer, {.kind = Kind::kPush, .place = piece, .sequence = number}, {}};
}

TEST(EventOrder, KeepsWhatComesTooEarlyUntilItIsDue) {
  EventOrder order;
  EXPECT_TRUE(order.keep(push(2, 1, 0), 8).ok());
  EXPECT_TRUE(order.keep(push(1, 2, 5), 8).ok());
  EXPECT_TRUE(order.has_push(2, 5));
  EXPECT_FALSE(order.take().has_value());
  order.done();
  EXPECT_EQ(order.take()->peer, 2U);
  EXPECT_FALSE(order.has_push(2, 5));
  order.done();
  EXPECT_EQ(order.take()->peer, 1U);
  order.done();
  EXPECT_FALSE(order.take().has_value());
  EXPECT_EQ(order.next(), 3U);
}

TEST(EventOrder, RefusesWhatIsOverCameAlreadyOrIsTooMuch) {
  EventOrder order;
  order.done();
  EXPECT_FALSE(order.keep(push(0, 1, 0), 2).ok());
  EXPECT_FALSE(order.keep(push(1, 1, 0), 2).ok());  // Is due, and need not be kept.
  EXPECT_TRUE(order.keep(push(3, 1, 0), 2).ok());
  EXPECT_FALSE(order.keep(push(3, 2, 0), 2).ok());
  EXPECT_TRUE(order.keep(push(2, 2, 0), 2).ok());
  EXPECT_FALSE(order.keep(push(4, 3, 0), 2).ok());
}

}  // namespace
}  // namespace tandem::ps
