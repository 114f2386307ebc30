#include "train/early_stop.h"

#include <gtest/gtest.h>

namespace tandem::train {
namespace {

Evaluation with_loss(double loss) {
  return {loss, {}, 1};
}

TEST(EarlyStop, WaitsForItsPatienceAndStartsAnewAtEachBest) {
  job::Train train;
  train.early_stop_patience = 2;
  EarlyStop stop(train);
  EXPECT_FALSE(stop.observe(with_loss(1.0)));
  EXPECT_FALSE(stop.observe(with_loss(1.1)));
  EXPECT_FALSE(stop.observe(with_loss(0.9)));
  EXPECT_FALSE(stop.observe(with_loss(0.9)));
  EXPECT_TRUE(stop.observe(with_loss(0.95)));
}

TEST(EarlyStop, CountsGainsBelowTheMinimumAsNone) {
  job::Train train;
  train.early_stop_patience = 1;
  train.early_stop_metric = "accuracy";
  train.early_stop_min_delta = 0.01;
  EarlyStop stop(train);
  EXPECT_FALSE(stop.observe({0, 0.90, 1}));
  EXPECT_FALSE(stop.observe({0, 0.92, 1}));
  EXPECT_TRUE(stop.observe({0, 0.925, 1}));
}

TEST(EarlyStop, IsOffWithoutPatience) {
  EarlyStop stop({});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(stop.observe(with_loss(i)));
}

TEST(EarlyStop, EndsAtItsTarget) {
  job::Train train;
  train.early_stop_target = 0.5;
  EarlyStop by_loss(train);
  EXPECT_FALSE(by_loss.observe(with_loss(0.6)));
  EXPECT_TRUE(by_loss.observe(with_loss(0.5)));
  train.early_stop_metric = "accuracy";
  EarlyStop by_accuracy(train);
  EXPECT_FALSE(by_accuracy.observe({0.1, 0.49, 1}));
  EXPECT_TRUE(by_accuracy.observe({0.1, 0.51, 1}));
}

TEST(EarlyStop, EndsWhenTheLossHardlyChanges) {
  job::Train train;
  train.early_stop_change = 0.01;
  EarlyStop stop(train);
  EXPECT_FALSE(stop.observe(with_loss(1.0)));
  EXPECT_FALSE(stop.observe(with_loss(0.9)));
  EXPECT_FALSE(stop.observe(with_loss(1.0)));
  EXPECT_TRUE(stop.observe(with_loss(0.995)));
}

TEST(EarlyStop, RemembersItsReason) {
  job::Train train;
  train.early_stop_target = 0.5;
  EarlyStop stop(train), other(train);
  stop.observe(with_loss(0.4));
  other.restore(stop.state());
  EXPECT_EQ(other.reason(), stop.reason());
}

}  // namespace
}  // namespace tandem::train
