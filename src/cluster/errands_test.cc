#include "cluster/errands.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <vector>

namespace tandem::cluster {
namespace {

using std::chrono::seconds;

class ErrandsTest : public testing::Test {
 protected:
  void run_until(const bool& reached) {
    const auto deadline = net::Loop::Clock::now() + seconds(20);
    while (!reached && net::Loop::Clock::now() < deadline)
      loop_->poll_once(std::chrono::milliseconds(50));
    ASSERT_TRUE(reached);
  }

  std::unique_ptr<net::Loop> loop_ = std::move(net::Loop::create()).value();
};

TEST_F(ErrandsTest, TheLoopGoesOnWhileOneIsUnderWay) {
  Errands errands(*loop_);
  std::promise<void> gate;
  std::vector<int> order;
  bool all = false;
  std::thread::id worked, followed;
  errands.run([&, opened = gate.get_future().share()] {
    opened.wait_for(seconds(20));
    worked = std::this_thread::get_id();
    return [&] { order.push_back(1); };
  });
  errands.run([&] {
    return [&] {
      followed = std::this_thread::get_id();
      order.push_back(2);
      all = true;
    };
  });
  bool posted = false;
  loop_->post([&] { posted = true; });
  run_until(posted);
  EXPECT_TRUE(order.empty());
  gate.set_value();
  run_until(all);
  EXPECT_EQ(order, (std::vector{1, 2}));
  EXPECT_NE(worked, std::this_thread::get_id());
  EXPECT_EQ(followed, std::this_thread::get_id());
}

TEST_F(ErrandsTest, NothingFollowsOnceTheyAreGone) {
  bool worked = false, followed = false;
  {
    Errands errands(*loop_);
    std::promise<void> begun;
    errands.run([&] {
      begun.set_value();
      worked = true;
      return [&] { followed = true; };
    });
    begun.get_future().wait_for(seconds(20));
  }
  EXPECT_TRUE(worked);
  bool posted = false;
  loop_->post([&] { posted = true; });
  run_until(posted);
  EXPECT_FALSE(followed);
}

}  // namespace
}  // namespace tandem::cluster
