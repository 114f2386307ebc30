#include "net/pulse.h"

#include <gtest/gtest.h>

namespace tandem::net {
namespace {

using namespace std::chrono_literals;
using Verdict = Pulse::Verdict;

const Limits kLimits{.heartbeat = 1000ms, .silence = 5000ms};
constexpr Pulse::Time kStart{};

TEST(Pulse, BeatsOnlyWhenNothingElseWasSent) {
  Pulse pulse(kLimits, kStart);
  EXPECT_EQ(pulse.due(), kStart + 1s);
  EXPECT_EQ(pulse.check(kStart + 1s), Verdict::kSendBeat);
  EXPECT_EQ(pulse.due(), kStart + 2s);
  pulse.sent(kStart + 1500ms);
  EXPECT_EQ(pulse.check(kStart + 2s), Verdict::kNothing);
  EXPECT_EQ(pulse.due(), kStart + 2500ms);
}

TEST(Pulse, CallsAPeerDeadAfterTheSilence) {
  Pulse pulse(kLimits, kStart);
  pulse.received(kStart + 300ms);
  for (auto at = 1s; at <= 5s; at += 1s) EXPECT_NE(pulse.check(kStart + at), Verdict::kDead);
  EXPECT_EQ(pulse.due(), kStart + 5300ms);
  EXPECT_EQ(pulse.check(kStart + 5300ms), Verdict::kDead);
}

TEST(Pulse, DoesNotBlameThePeerForItsOwnSleep) {
  Pulse pulse(kLimits, kStart);
  EXPECT_EQ(pulse.check(kStart + 1h), Verdict::kSendBeat);
  EXPECT_EQ(pulse.check(kStart + 1h + 1s), Verdict::kSendBeat);
  for (auto at = 2s; at < 5s; at += 1s) EXPECT_NE(pulse.check(kStart + 1h + at), Verdict::kDead);
  EXPECT_EQ(pulse.check(kStart + 1h + 5s), Verdict::kDead);
}

}  // namespace
}  // namespace tandem::net
