#include "ps/progress_wire.h"

#include <gtest/gtest.h>

namespace tandem::ps {
namespace {

TEST(ProgressWire, ComesBackAsItWas) {
  const TaskProgress progress(5, 4, 3, {3, 3, 1, 3, 0, 2});
  const wire::PsProgress message = to_wire(progress);
  EXPECT_EQ(message.done_below(), 22);
  EXPECT_EQ(message.begun_below(), 26);
  EXPECT_EQ(message.updates(), 12U);
  const auto back = from_wire(message, 4, 3);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->from(), 5);
  EXPECT_EQ(back->applied(), progress.applied());
  EXPECT_EQ(from_wire(to_wire(TaskProgress(7, 4, 3)), 4, 3)->begun_below(), 28);
}

TEST(ProgressWire, RefusesWhatMakesNoSense) {
  const wire::PsProgress good = to_wire(TaskProgress(5, 4, 3, {3, 1, 3}));
  const auto is_refused = [&](auto&& change) {
    wire::PsProgress message = good;
    change(message);
    return !from_wire(message, 4, 3).ok();
  };
  EXPECT_FALSE(is_refused([](auto&) {}));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_from(-1); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_from(std::int64_t{1} << 62); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_done_below(24); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_done_below(19); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_begun_below(std::int64_t{1} << 60); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.set_begun_below(19); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.add_done(23); }));
  EXPECT_TRUE(is_refused([](auto& each) { each.mutable_parts(0)->set_pieces(4); }));
}

}  // namespace
}  // namespace tandem::ps
