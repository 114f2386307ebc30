#include "cluster/supervision.h"

#include <gtest/gtest.h>

namespace tandem::cluster {
namespace {

using std::chrono::seconds;

const TimePoint kStart{};
const Limits kLimits{
    .start = seconds(120), .silence = seconds(300), .grace = seconds(10), .saving = seconds(60)};

TEST(Supervision, KillsAWorkerThatDoesNotStartInTime) {
  Supervision supervision(kLimits, kStart);
  EXPECT_EQ(supervision.tick(kStart + seconds(119)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(120)), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kStartTimeout);
  EXPECT_EQ(supervision.tick(kStart + seconds(500)), Order::kNothing);
  EXPECT_EQ(supervision.deadline(), TimePoint::max());
}

TEST(Supervision, OnlyStartedEndsTheStart) {
  Supervision supervision(kLimits, kStart);
  supervision.heard(kStart + seconds(100));
  EXPECT_EQ(supervision.tick(kStart + seconds(120)), Order::kKill);
}

TEST(Supervision, KillsASilentWorkerAndAnyMessageProlongsItsLife) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart + seconds(1));
  supervision.heard(kStart + seconds(200));
  EXPECT_EQ(supervision.tick(kStart + seconds(499)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(500)), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kSilence);
}

TEST(Supervision, AWorkerThatOthersAwaitMayBeSilentForLessTime) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  supervision.awaited(seconds(5), kStart + seconds(10));
  supervision.heard(kStart + seconds(12));  // It is at work.
  EXPECT_EQ(supervision.tick(kStart + seconds(16)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(17)), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kSilence);
}

TEST(Supervision, AWorkerThatHasMetTheOthersMayBeSilentAsBefore) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  supervision.awaited(seconds(5), kStart);
  supervision.met(kStart + seconds(4));
  EXPECT_EQ(supervision.tick(kStart + seconds(303)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(304)), Order::kKill);
}

TEST(Supervision, AsksFirstThenKillsAfterTheGrace) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart + seconds(5)), Order::kTerminate);
  EXPECT_EQ(supervision.tick(kStart + seconds(14)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(15)), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kCancelled);
}

TEST(Supervision, AWorkerThatSpeaksWhileItSavesHasTimeForItButNotForEver) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kTerminate);
  for (int second = 1; second < 60; ++second) {
    supervision.heard(kStart + seconds(second));
    ASSERT_EQ(supervision.tick(kStart + seconds(second)), Order::kNothing) << second;
  }
  EXPECT_EQ(supervision.tick(kStart + seconds(60)), Order::kKill);
}

TEST(Supervision, AWorkerThatFallsSilentWhileItSavesIsKilledAfterTheGrace) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kTerminate);
  supervision.heard(kStart + seconds(8));
  EXPECT_EQ(supervision.tick(kStart + seconds(17)), Order::kNothing);
  EXPECT_EQ(supervision.tick(kStart + seconds(18)), Order::kKill);
}

TEST(Supervision, ASecondStopKillsAtOnceAndKeepsTheFirstCause) {
  Supervision supervision(kLimits, kStart);
  EXPECT_EQ(supervision.stop(Cause::kFailure, kStart), Order::kTerminate);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kKill);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kNothing);
  EXPECT_EQ(supervision.cause(), Cause::kFailure);
}

TEST(Supervision, AWorkerThatReportedItsEndAndHangsIsKilledWithoutBlame) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  supervision.ending(kStart + seconds(50));
  EXPECT_EQ(supervision.tick(kStart + seconds(60)), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kNone);
}

TEST(Supervision, AStopAfterTheReportedEndIsNoCancellation) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  supervision.ending(kStart);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kTerminate);
  EXPECT_EQ(supervision.stop(Cause::kCancelled, kStart), Order::kKill);
  EXPECT_EQ(supervision.cause(), Cause::kNone);
}

TEST(Supervision, TimeInSuspensionDoesNotCount) {
  Supervision supervision(kLimits, kStart);
  supervision.started(kStart);
  supervision.resumed(kStart + seconds(5000));
  EXPECT_EQ(supervision.tick(kStart + seconds(5001)), Order::kNothing);
  EXPECT_EQ(supervision.deadline(), kStart + seconds(5300));
}

}  // namespace
}  // namespace tandem::cluster
