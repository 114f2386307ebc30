#include "ps/pump.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::ps {
namespace {

using std::chrono::steady_clock;

// Reads what comes through a pair of sockets.
class PumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    here_ = Descriptor(ends[0]);
    there_ = Descriptor(ends[1]);
    auto pump = Pump::create({[this] { return turn(); },
                              [this](std::vector<pollfd>& entries) {
                                entries.push_back({here_.get(), POLLIN, 0});
                              }});
    ASSERT_TRUE(pump.ok()) << pump.error().message();
    pump_ = std::move(*pump);
  }

  Result<bool> turn() {
    char byte = 0;
    if (::read(here_.get(), &byte, 1) != 1) return false;
    if (byte == '!') return Error(Code::kPeerLost, "it said so");
    ++read_;
    return true;
  }

  void write(char byte) { ASSERT_EQ(::write(there_.get(), &byte, 1), 1); }

  void start() {
    const auto held = pump_->hold();
    pump_->start();
  }

  // Whether so many bytes were read, within some seconds.
  bool await(int bytes) {
    const auto end = steady_clock::now() + std::chrono::seconds(10);
    while (steady_clock::now() < end) {
      const auto held = pump_->hold();
      if (read_ == bytes) return true;
    }
    return false;
  }

  Descriptor here_, there_;
  int read_ = 0;  // While the pump is held.
  std::unique_ptr<Pump> pump_;
};

TEST_F(PumpTest, WorksFromStartToStop) {
  write('a');
  {
    const auto held = pump_->hold();
    EXPECT_EQ(read_, 0) << "it was not started";
    pump_->start();
  }
  EXPECT_TRUE(await(1));
  write('b');
  EXPECT_TRUE(await(2)) << "it waits for what comes";
  {
    const auto held = pump_->hold();
    pump_->stop();
    write('c');
  }
  start();
  EXPECT_TRUE(await(3));
}

TEST_F(PumpTest, LeavesItsOwnerAloneWhileHeld) {
  start();
  const auto held = pump_->hold();
  const int before = read_;
  for (int i = 0; i < 100; ++i) write('a');
  for (int i = 0; i < 1000; ++i) ::sched_yield();
  EXPECT_EQ(read_, before);
}

TEST_F(PumpTest, KeepsWhatWentWrongAndTurnsNoMore) {
  write('!');
  write('a');
  start();
  const auto end = steady_clock::now() + std::chrono::seconds(10);
  for (bool failed = false; !failed && steady_clock::now() < end;) {
    const auto held = pump_->hold();
    failed = !pump_->status().ok();
  }
  start();
  const auto held = pump_->hold();
  ASSERT_FALSE(pump_->status().ok());
  EXPECT_EQ(pump_->status().error().code(), Code::kPeerLost);
  EXPECT_EQ(read_, 0);
}

TEST_F(PumpTest, EndsWhileItWaits) {
  start();
  const auto begin = steady_clock::now();
  pump_.reset();
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tandem::ps
