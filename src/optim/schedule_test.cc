#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "optim/portable.h"

namespace tandem::optim {
namespace {

Schedule make(const ScheduleConfig& config, double lr = 0.1, Horizon horizon = {10, 100}) {
  auto schedule = Schedule::create(config, lr, horizon);
  EXPECT_TRUE(schedule.ok());
  return std::move(schedule).value();
}

TEST(Schedule, ConstantStaysAtTheRate) {
  const Schedule schedule = make({});
  EXPECT_EQ(schedule.lr_at(0), 0.1);
  EXPECT_EQ(schedule.lr_at(1'000'000), 0.1);
}

TEST(Schedule, StepMultipliesAfterEveryEpochs) {
  const Schedule schedule = make({.kind = ScheduleKind::kStep, .every_epochs = 2, .gamma = 0.5});
  EXPECT_EQ(schedule.lr_at(19), 0.1);
  EXPECT_EQ(schedule.lr_at(20), 0.05);
  EXPECT_EQ(schedule.lr_at(40), 0.025);
}

TEST(Schedule, CosineFallsToTheMinimum) {
  const Schedule schedule = make({.kind = ScheduleKind::kCosine, .min_lr = 0.01});
  for (std::int64_t step = 0; step < 100; ++step) {
    const double expected =
        0.01 + 0.09 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 100)) / 2;
    EXPECT_NEAR(schedule.lr_at(step), expected, 1e-15);
  }
  EXPECT_EQ(schedule.lr_at(100), 0.01);
  EXPECT_EQ(schedule.lr_at(5000), 0.01);
}

TEST(Schedule, WarmsUpInFrontOfAnyKind) {
  const Schedule constant = make({.warmup_steps = 4});
  EXPECT_DOUBLE_EQ(constant.lr_at(0), 0.025);
  EXPECT_DOUBLE_EQ(constant.lr_at(1), 0.05);
  EXPECT_DOUBLE_EQ(constant.lr_at(3), 0.1);
  EXPECT_DOUBLE_EQ(constant.lr_at(4), 0.1);
  const Schedule cosine = make({.kind = ScheduleKind::kCosine, .warmup_steps = 20});
  EXPECT_DOUBLE_EQ(cosine.lr_at(0), 0.005);
  EXPECT_DOUBLE_EQ(cosine.lr_at(20), 0.1);
  EXPECT_DOUBLE_EQ(cosine.lr_at(60), 0.05);
}

TEST(Schedule, WarmUpMayOutlastTheTraining) {
  const Schedule schedule = make({.kind = ScheduleKind::kCosine, .warmup_steps = 1000});
  EXPECT_DOUBLE_EQ(schedule.lr_at(99), 0.01);
}

TEST(Schedule, PlateauLowersAfterPatienceRunsOut) {
  Schedule schedule =
      make({.kind = ScheduleKind::kPlateau, .gamma = 0.5, .min_lr = 0.04, .patience = 2});
  EXPECT_FALSE(schedule.observe(1.0));
  EXPECT_FALSE(schedule.observe(1.0));
  EXPECT_FALSE(schedule.observe(0.9));
  EXPECT_FALSE(schedule.observe(std::nan("")));
  EXPECT_TRUE(schedule.observe(0.95));
  EXPECT_EQ(schedule.lr_at(0), 0.05);
  EXPECT_FALSE(schedule.observe(0.9));
  EXPECT_TRUE(schedule.observe(0.9));
  EXPECT_EQ(schedule.lr_at(0), 0.04);
  EXPECT_FALSE(schedule.observe(0.9));
  EXPECT_FALSE(schedule.observe(0.9));
  EXPECT_EQ(schedule.lr_at(0), 0.04);
}

TEST(Schedule, OnlyPlateauObserves) {
  Schedule schedule = make({.patience = 1});
  EXPECT_FALSE(schedule.observe(1));
  EXPECT_FALSE(schedule.observe(2));
}

TEST(Schedule, ContinuesAfterARestore) {
  const ScheduleConfig config = {.kind = ScheduleKind::kPlateau, .gamma = 0.5, .patience = 2};
  Schedule first = make(config);
  for (const double loss : {1.0, 2.0, 2.0, 0.9, 1.5}) first.observe(loss);
  Schedule second = make(config);
  ASSERT_TRUE(second.restore(first.state()).ok());
  EXPECT_EQ(second.lr_at(0), 0.05);
  EXPECT_TRUE(second.observe(1.0));
  EXPECT_EQ(second.lr_at(0), 0.025);
}

TEST(Schedule, RefusesAnImpossibleState) {
  Schedule schedule = make({});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<StateValue>> wrong = {
      {},
      {{"best", 1}, {"bad", 1}},
      {{"best", nan}, {"bad", 1}, {"factor", 1}},
      {{"best", 1}, {"bad", 0.5}, {"factor", 1}},
      {{"best", 1}, {"bad", 1e300}, {"factor", 1}},
      {{"best", 1}, {"bad", -1}, {"factor", 1}},
      {{"best", 1}, {"bad", 1}, {"factor", nan}},
  };
  for (const auto& values : wrong) {
    const Status status = schedule.restore(values);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Code::kCorrupt);
  }
}

TEST(Schedule, RefusesImpossibleConfigurations) {
  const std::pair<ScheduleConfig, std::string> wrong[] = {
      {{.warmup_steps = -1}, "warmup_steps"},
      {{.kind = ScheduleKind::kStep, .every_epochs = 0}, "every_epochs"},
      {{.kind = ScheduleKind::kStep, .gamma = 0}, "gamma"},
      {{.kind = ScheduleKind::kPlateau, .gamma = 1.5}, "gamma"},
      {{.kind = ScheduleKind::kPlateau, .patience = 0}, "patience"},
      {{.kind = ScheduleKind::kCosine, .min_lr = 0.2}, "min_lr"},
      {{.kind = ScheduleKind::kCosine, .min_lr = std::nan("")}, "min_lr"},
  };
  for (const auto& [config, key] : wrong) {
    const auto schedule = Schedule::create(config, 0.1, {10, 100});
    ASSERT_FALSE(schedule.ok()) << key;
    EXPECT_EQ(schedule.error().code(), Code::kInvalidArgument);
    EXPECT_NE(schedule.error().message().find("schedule." + key), std::string::npos);
  }
}

TEST(Portable, AgreesWithTheLibrary) {
  for (int i = 0; i <= 1000; ++i) {
    const double turn = i / 1000.0;
    EXPECT_NEAR(cos_pi(turn), std::cos(std::numbers::pi * turn), 1e-15);
    EXPECT_NEAR(power(0.999, i) / std::pow(0.999, i), 1, 1e-13);
  }
  EXPECT_EQ(cos_pi(0), 1);
  EXPECT_EQ(cos_pi(1), -1);
  EXPECT_EQ(power(0, 0), 1);
  EXPECT_EQ(power(0, 3), 0);
}

}  // namespace
}  // namespace tandem::optim
