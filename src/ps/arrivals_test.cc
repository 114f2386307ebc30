#include "ps/arrivals.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::ps {
namespace {

// A slice of ten parameters that begin at 1, in two pieces, and two workers.
class ArrivalsTest : public testing::Test {
 protected:
  void make(const AsyncRule& rule, double momentum = 0) {
    SliceConfig config{.slice = {0, 10}, .parameters = 10, .trainable = {{0, 10}}};
    config.optimizer.momentum = momentum;
    auto made = DenseSlice::create(config, memory);
    ASSERT_TRUE(made.ok());
    slice = std::move(made).value();
    for (std::size_t array = 0; array < slice->arrays(); ++array) {
      auto floats = slice->load(0, array, 0, 10);
      ASSERT_TRUE(floats.ok());
      std::fill(floats->begin(), floats->end(), array == 0 ? 1.0F : 0.0F);
    }
    ASSERT_TRUE(slice->use(0).ok());
    arrivals.emplace(*slice, progress, std::vector<Piece>{{0, 6, 0}, {6, 10, 1}}, 2, rule, 2,
                     copies);
  }

  static Header push_of(std::int64_t task, std::uint64_t piece, double lr = 0.5) {
    return {.kind = Kind::kPush,
            .step = task,
            .place = piece,
            .bytes = (piece == 0 ? 6U : 4U) * sizeof(float),
            .number = lr};
  }
  Status push(std::int64_t task, std::uint64_t piece, int worker, float gradient = 1) {
    const Header header = push_of(task, piece);
    TANDEM_TRY(arrivals->check(header, worker));
    const std::vector<float> floats(header.bytes / sizeof(float), gradient);
    return arrivals->apply(header, worker, floats).ok() ? Status()
                                                        : Status(Error(Code::kDiverged, ""));
  }
  float first_of(std::size_t piece, int worker) { return arrivals->answer(piece, worker)[0]; }

  std::vector<float> memory = std::vector<float>(20), copies = std::vector<float>(20);
  std::unique_ptr<DenseSlice> slice;
  TaskProgress progress{0, 2, 2};
  std::optional<Arrivals> arrivals;
};

TEST_F(ArrivalsTest, AppliesPushesAsTheyCome) {
  make({});
  EXPECT_TRUE(push(0, 0, 0).ok());
  EXPECT_TRUE(push(1, 0, 1).ok());
  EXPECT_TRUE(push(1, 1, 1).ok());
  EXPECT_EQ(first_of(0, 0), 0);
  EXPECT_EQ(first_of(1, 0), 0.5);
  EXPECT_EQ(progress.complete(), std::vector<std::int64_t>{1});
}

TEST_F(ArrivalsTest, ATaskThatIsComputedAgainCountsOnce) {
  make({});
  EXPECT_TRUE(push(0, 0, 0).ok());
  // Its worker is gone; another computes it.
  EXPECT_TRUE(push(0, 0, 1).ok());
  EXPECT_TRUE(push(0, 1, 1).ok());
  EXPECT_EQ(first_of(0, 1), 0.5);
  EXPECT_EQ(first_of(1, 1), 0.5);
  EXPECT_FALSE(progress.stands_after(1));
  EXPECT_TRUE(push(1, 0, 1).ok());
  EXPECT_TRUE(push(1, 1, 1).ok());
  EXPECT_TRUE(progress.stands_after(1));
}

TEST_F(ArrivalsTest, AnAnswerStaysAsItIsWhileOthersPush) {
  make({});
  const std::span<const float> answer = arrivals->answer(0, 0);
  EXPECT_TRUE(push(0, 0, 1).ok());
  EXPECT_EQ(answer[0], 1);
  EXPECT_EQ(first_of(0, 1), 0.5);
}

TEST_F(ArrivalsTest, LowersTheRateOfGradientsThatMissedUpdates) {
  make({.stale_lr = StaleRate::kLowered});
  (void)first_of(0, 0);
  (void)first_of(0, 1);
  EXPECT_TRUE(push(0, 0, 1).ok());  // Missed nothing.
  EXPECT_EQ(first_of(0, 1), 0.5);
  EXPECT_TRUE(push(0, 1, 1).ok());
  EXPECT_TRUE(push(1, 0, 1).ok());
  EXPECT_EQ(first_of(0, 1), 0);
  // Two updates of two lanes: one step's worth.
  EXPECT_TRUE(push(2, 0, 0).ok());
  EXPECT_EQ(first_of(0, 0), -0.25);
}

TEST_F(ArrivalsTest, CorrectsGradientsForWhatOthersChanged) {
  make({.compensation = 2});
  (void)first_of(0, 0);
  (void)first_of(0, 1);
  EXPECT_TRUE(push(0, 0, 1).ok());
  EXPECT_EQ(first_of(0, 1), 0.5);
  // Worker 0 saw 1, now it is 0.5: 3 + 2 * 3 * 3 * (0.5 - 1).
  EXPECT_TRUE(push(1, 0, 0, 3).ok());
  EXPECT_EQ(first_of(0, 0), 0.5F - 0.5F * (3 - 9));
}

TEST_F(ArrivalsTest, RefusesWhatIsNotDue) {
  make({});
  EXPECT_FALSE(push(0, 1, 0).ok());   // Before piece 0.
  EXPECT_FALSE(push(0, 2, 0).ok());   // There is none.
  EXPECT_FALSE(push(-1, 0, 0).ok());  // Before the stretch.
  EXPECT_FALSE(push(std::int64_t{1} << 40, 0, 0).ok());
  EXPECT_FALSE(push(0, 0, 2).ok());  // There is no such worker.
  Header wrong = push_of(0, 0);
  wrong.bytes -= 4;
  EXPECT_FALSE(arrivals->check(wrong, 0).ok());
  for (const double rate : {-1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE(arrivals->check(push_of(0, 0, rate), 0).ok());
  EXPECT_EQ(first_of(0, 0), 1);
}

TEST_F(ArrivalsTest, RefusesGradientsThatAreNotFinite) {
  make({});
  EXPECT_FALSE(push(0, 0, 0, std::numeric_limits<float>::quiet_NaN()).ok());
  EXPECT_FALSE(push(0, 0, 0, -std::numeric_limits<float>::infinity()).ok());
  EXPECT_EQ(first_of(0, 0), 1);
  EXPECT_TRUE(push(0, 0, 1).ok());
}

}  // namespace
}  // namespace tandem::ps
