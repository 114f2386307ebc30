#include "display.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

using std::chrono::milliseconds;

class DisplayTest : public testing::Test {
 protected:
  Display make(DisplayStyle style) {
    return Display(job, {}, style,
                   {[this](Weight weight, std::string_view text) { return take(weight, text); },
                    [this] { return now; }, [] { return 80; }});
  }
  bool take(Weight weight, std::string_view text) {
    if (reader == Reader::kStopped && weight != Weight::kLast) return false;
    written += text;
    return true;
  }
  static wire::WorkerMessage started() {
    wire::WorkerMessage message;
    message.mutable_started()->set_total_steps(1000);
    message.mutable_started()->set_steps_per_epoch(100);
    return message;
  }
  static wire::WorkerMessage progress(std::int64_t step) {
    wire::WorkerMessage message;
    message.mutable_progress()->set_step(step);
    message.mutable_progress()->set_samples(step * 64);
    message.mutable_progress()->set_train_s(static_cast<double>(step) * 0.01);
    message.mutable_progress()->set_loss(1.0 / static_cast<double>(step));
    return message;
  }
  std::size_t count(std::string_view part) const {
    std::size_t found = 0;
    for (std::size_t at = written.find(part); at != std::string::npos;
         at = written.find(part, at + 1))
      ++found;
    return found;
  }

  enum class Reader : std::uint8_t { kReads, kStopped };

  job::Job job;
  Reader reader = Reader::kReads;
  std::string written;
  std::chrono::steady_clock::time_point now{};
};

TEST_F(DisplayTest, PlainOutputHasALineAnIntervalAndNoControlCharacters) {
  {
    Display display = make({});
    display.message(started());
    for (int i = 1; i <= 50; ++i) {
      now += milliseconds(100);
      display.message(progress(i));
      display.tick();
    }
  }
  EXPECT_GE(count("samples/s"), 5U);
  EXPECT_LE(count("samples/s"), 6U);
  EXPECT_EQ(count("\r") + count("\x1b"), 0U);
  EXPECT_NE(written.find("6,400 samples/s"), std::string::npos);
}

TEST_F(DisplayTest, ATerminalGetsOneLineThatIsRedrawnAtMostTenTimesASecond) {
  {
    Display display = make({.live = true});
    display.message(started());
    const std::string before = std::exchange(written, "");
    for (int i = 1; i <= 1000; ++i) {
      now += milliseconds(1);
      display.message(progress(i));
    }
    EXPECT_LE(count("\r"), 11U);
    EXPECT_GE(count("\r"), 9U);
    EXPECT_EQ(count("\n"), 0U);
  }
  EXPECT_TRUE(written.ends_with("\r\x1b[K")) << "the live line is taken away at the end";
}

TEST_F(DisplayTest, LinesOfTheWorkerStandAboveTheLiveLine) {
  Display display = make({.live = true});
  display.message(started());
  display.message(progress(1));
  written.clear();
  display.line(0, cluster::Stream::kErrors, "careful");
  EXPECT_TRUE(written.starts_with("\r\x1b[Kworker 0: careful\n"));
  EXPECT_NE(written.find("step 1/1000"), std::string::npos) << "the live line is back";
}

TEST_F(DisplayTest, ShowsOutputOnlyWhenVerboseAndErrorsAlways) {
  Display normal = make({});
  normal.line(0, cluster::Stream::kOutput, "information");
  EXPECT_EQ(written, "");
  Display quiet = make({.detail = Detail::kQuiet});
  quiet.message(started());
  quiet.message(progress(1));
  quiet.summary(cluster::Report(), "runs/x");
  EXPECT_EQ(written, "");
  quiet.line(0, cluster::Stream::kErrors, "careful");
  Display verbose = make({.detail = Detail::kVerbose});
  verbose.line(0, cluster::Stream::kOutput, "information");
  EXPECT_EQ(written, "worker 0: careful\nworker 0: information\n");
}

TEST_F(DisplayTest, AFailedCheckpointIsShownHoweverQuiet) {
  const auto tell = [&](Display display, const char* kind) {
    wire::WorkerMessage message;
    message.mutable_event()->set_kind(kind);
    message.mutable_event()->set_detail("step 5");
    display.message(message);
  };
  tell(make({.detail = Detail::kQuiet}), "checkpoint");
  tell(make({.detail = Detail::kQuiet}), "saved");
  tell(make({}), "checkpoint");
  EXPECT_EQ(written, "");
  tell(make({.detail = Detail::kQuiet}), "checkpoint_failed");
  EXPECT_EQ(written, "checkpoint_failed: step 5\n");
  tell(make({.detail = Detail::kVerbose}), "checkpoint");
  EXPECT_EQ(written, "checkpoint_failed: step 5\ncheckpoint: step 5\n");
}

TEST_F(DisplayTest, ARepeatedProgressIsNoNewLine) {
  Display display = make({});
  display.message(started());
  display.message(progress(5));
  now += std::chrono::seconds(5);
  display.message(progress(5));
  EXPECT_EQ(count("step 5/1000"), 1U);
}

TEST_F(DisplayTest, LinesThatNobodyReadAreLeftOutAndCounted) {
  Display display = make({});
  reader = Reader::kStopped;
  display.line(0, cluster::Stream::kErrors, "one");
  display.line(0, cluster::Stream::kErrors, "two");
  EXPECT_EQ(written, "");
  reader = Reader::kReads;
  display.line(0, cluster::Stream::kErrors, "three");
  display.line(0, cluster::Stream::kErrors, "four");
  EXPECT_EQ(written,
            "(2 lines left out while nobody read them)\nworker 0: three\nworker 0: four\n");
}

TEST_F(DisplayTest, AFrameThatWasLeftOutIsDrawnAgainAndTheOldOneStillTakenAway) {
  Display display = make({.live = true});
  display.message(started());
  display.message(progress(1));
  reader = Reader::kStopped;
  now += std::chrono::seconds(1);
  display.message(progress(2));
  display.line(0, cluster::Stream::kErrors, "careful");
  reader = Reader::kReads;
  written.clear();
  now += std::chrono::seconds(1);
  display.tick();
  EXPECT_NE(written.find("step 2/1000"), std::string::npos);
  written.clear();
  reader = Reader::kStopped;
  display.summary(cluster::Report(), "runs/x");
  EXPECT_TRUE(written.starts_with("\r\x1b[K(1 line left out")) << written;
  EXPECT_NE(written.find("runs/x"), std::string::npos) << "the last words are never left out";
}

}  // namespace
}  // namespace tandem::cli
