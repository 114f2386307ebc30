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

}  // namespace
}  // namespace tandem::train
