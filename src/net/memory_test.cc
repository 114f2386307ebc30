#include "net/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/frame.h"
#include "net/testing.h"

namespace tandem::net {
namespace {

struct Log {
  std::vector<Message> messages;
  std::vector<Error> closed;
  int drained = 0;

  Channel::Handler handler() {
    return {.on_message =
                [this](std::uint16_t kind, std::string bytes) {
                  messages.push_back({kind, std::move(bytes)});
                },
            .on_closed = [this](Error why) { closed.push_back(std::move(why)); },
            .on_drained = [this] { ++drained; }};
  }
};

class Memory : public testing::Test {
 protected:
  void connect(const Limits& limits = {}, Hook hook = nullptr) {
    pair_ = memory_pair(*loop_, limits, std::move(hook));
    pair_.first->start(first_.handler());
    pair_.second->start(second_.handler());
  }

  const std::unique_ptr<Loop> loop_ = make_loop();
  Log first_, second_;
  MemoryPair pair_;
};

TEST_F(Memory, CarriesMessagesInOrderBothWays) {
  connect();
  for (std::uint16_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair_.first->send(i, "a").ok());
    ASSERT_TRUE(pair_.second->send(i, "b").ok());
  }
  EXPECT_TRUE(first_.messages.empty());  // Never from inside send().
  ASSERT_TRUE(wait_until(
      *loop_, [&] { return first_.messages.size() == 10 && second_.messages.size() == 10; }));
  for (std::uint16_t i = 0; i < 10; ++i) EXPECT_EQ(second_.messages[i], (Message{i, "a"}));
}

TEST_F(Memory, LosesAndDelaysWhatTheHookSays) {
  connect({}, [](Side from, std::uint16_t kind, std::string_view) {
    if (from == Side::kSecond) return Fate{};
    if (kind == 1) return Fate{Fate::Kind::kIsLost};
    return Fate{Fate::Kind::kArrives, kind == 2 ? 30ms : 0ms};
  });
  const auto began = Loop::Clock::now();
  for (std::uint16_t kind = 1; kind <= 3; ++kind) ASSERT_TRUE(pair_.first->send(kind, "").ok());
  ASSERT_TRUE(wait_until(*loop_, [&] { return second_.messages.size() == 2; }));
  EXPECT_GE(Loop::Clock::now() - began, 30ms);
  EXPECT_EQ(second_.messages[0].kind, 2);
  EXPECT_EQ(second_.messages[1].kind, 3);
}

TEST_F(Memory, BreaksForBothSides) {
  connect({}, [](Side, std::uint16_t kind, std::string_view) {
    return Fate{kind == 9 ? Fate::Kind::kBreaksChannel : Fate::Kind::kArrives};
  });
  ASSERT_TRUE(pair_.first->send(9, "").ok());
  ASSERT_TRUE(
      wait_until(*loop_, [&] { return !first_.closed.empty() && !second_.closed.empty(); }));
  EXPECT_EQ(first_.closed[0].code(), Code::kPeerLost);
  EXPECT_EQ(second_.closed[0].code(), Code::kPeerLost);
  EXPECT_EQ(pair_.second->send(1, "").error().code(), Code::kPeerLost);
}

TEST_F(Memory, IsCutFromOutside) {
  connect();
  pair_.cut();
  ASSERT_TRUE(
      wait_until(*loop_, [&] { return !first_.closed.empty() && !second_.closed.empty(); }));
  EXPECT_EQ(second_.closed[0].code(), Code::kPeerLost);
  pair_.first.reset();
  pair_.cut();
}

TEST_F(Memory, NoticesSilence) {
  Limits limits;
  limits.heartbeat = 10ms;
  limits.silence = 60ms;
  bool parted = false;
  connect(limits, [&](Side, std::uint16_t, std::string_view) {
    return Fate{parted ? Fate::Kind::kIsLost : Fate::Kind::kArrives};
  });
  loop_->run_for(150ms);
  EXPECT_TRUE(first_.closed.empty() && second_.closed.empty());
  EXPECT_TRUE(first_.messages.empty());
  parted = true;
  ASSERT_TRUE(
      wait_until(*loop_, [&] { return !first_.closed.empty() && !second_.closed.empty(); }));
  EXPECT_TRUE(first_.closed[0].code() == Code::kTimeout ||
              second_.closed[0].code() == Code::kTimeout);
}

TEST_F(Memory, QueuesNoMoreThanItsLimit) {
  Limits limits;
  limits.queue_bytes = 1000;
  connect(limits);
  ASSERT_TRUE(pair_.first->send(1, std::string(900, 'x')).ok());
  EXPECT_EQ(pair_.first->send(1, std::string(100, 'x')).error().code(), Code::kOutOfSpace);
  EXPECT_EQ(pair_.first->queued_bytes(), 900 + kHeaderBytes);
  ASSERT_TRUE(wait_until(*loop_, [&] { return first_.drained == 1; }));
  EXPECT_TRUE(pair_.first->send(1, std::string(100, 'x')).ok());
}

TEST_F(Memory, ClosesAfterTheLastMessage) {
  connect();
  ASSERT_TRUE(pair_.first->send(1, "last").ok());
  pair_.first->close(Closing::kWhenSent);
  ASSERT_TRUE(
      wait_until(*loop_, [&] { return !first_.closed.empty() && !second_.closed.empty(); }));
  EXPECT_EQ(second_.messages.size(), 1U);
  EXPECT_EQ(first_.closed[0].code(), Code::kCancelled);
  EXPECT_EQ(second_.closed[0].code(), Code::kPeerLost);
}

}  // namespace
}  // namespace tandem::net
