#include "ps/dense_slice.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::ps {
namespace {

// Floats 4 to 12 of a vector whose first 10 are parameters, of which 5 and 6 are frozen.
SliceConfig config() {
  SliceConfig config;
  config.slice = {4, 12};
  config.parameters = 10;
  config.trainable = {{0, 5}, {7, 10}};
  config.optimizer.momentum = 0.5;
  return config;
}

struct Loaded {
  std::vector<float> memory = std::vector<float>(16);
  std::unique_ptr<DenseSlice> slice = DenseSlice::create(config(), memory).value();

  Loaded() {
    for (std::size_t array = 0; array < 2; ++array) {
      const std::span<float> floats = slice->load(3, array, 0, 6).value();
      std::fill(floats.begin(), floats.end(), array == 0 ? 1.0F : 0.0F);
    }
    EXPECT_TRUE(slice->use(3).ok());
  }

  std::vector<float> step(float gradient) {
    std::vector<float> sums(8, gradient);
    slice->begin(0.1);
    EXPECT_EQ(slice->apply({0, 8}, sums), optim::Updated::kFinite);
    const std::span<const float> result = slice->result({0, 8});
    std::vector<float> copy(result.begin(), result.end());
    slice->commit();
    return copy;
  }
};

TEST(DenseSlice, UpdatesWhatIsTrainedAndSumsTheRest) {
  Loaded loaded;
  const float moved = 1.0F - 0.1F * 2.0F;
  // Vector floats 4 | 5 6 frozen | 7 8 9 | 10 11 summed.
  EXPECT_EQ(loaded.step(2), (std::vector<float>{moved, 1, 1, moved, moved, moved, 2, 2}));
  EXPECT_EQ(loaded.slice->step(), 4);
}

TEST(DenseSlice, KeepsTheStateBeforeTheLastStepAndGoesBackToIt) {
  Loaded loaded;
  const std::vector<float> first = loaded.step(2);
  loaded.step(5);
  EXPECT_EQ(loaded.slice->steps(), (std::vector<std::int64_t>{5, 4}));
  ASSERT_TRUE(loaded.slice->use(4).ok());
  EXPECT_EQ(loaded.slice->steps(), (std::vector<std::int64_t>{4}));
  const auto parameters = loaded.slice->fetch(4, 0, 0, 6);
  ASSERT_TRUE(parameters.ok());
  EXPECT_TRUE(std::equal(parameters->begin(), parameters->end(), first.begin()));
  EXPECT_EQ(loaded.slice->fetch(5, 0, 0, 6).error().code(), Code::kNotFound);
}

TEST(DenseSlice, AStepThatWasGivenUpLeavesNothing) {
  Loaded twice, once;
  std::vector<float> sums(8, 9.0F);
  twice.slice->begin(0.1);
  (void)twice.slice->apply({0, 3}, std::span(sums).first(3));
  EXPECT_EQ(twice.step(2), once.step(2));
  EXPECT_EQ(twice.step(3), once.step(3));
}

TEST(DenseSlice, AStateThatIsHalfLoadedIsNone) {
  Loaded loaded;
  ASSERT_TRUE(loaded.slice->load(8, 0, 0, 3).ok());
  EXPECT_TRUE(loaded.slice->steps().empty());
  EXPECT_FALSE(loaded.slice->use(3).ok());
}

TEST(DenseSlice, RefusesWhatLiesOutside) {
  Loaded loaded;
  EXPECT_EQ(loaded.slice->fetch(3, 2, 0, 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(loaded.slice->fetch(3, 0, 5, 2).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(loaded.slice->fetch(3, 0, ~std::size_t{0}, 2).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(loaded.slice->load(-1, 0, 0, 1).error().code(), Code::kInvalidArgument);
}

TEST(DenseSlice, NoticesWhatIsNoNumber) {
  Loaded loaded;
  std::vector<float> sums(8, NAN);
  loaded.slice->begin(0.1);
  EXPECT_EQ(loaded.slice->apply({0, 8}, sums), optim::Updated::kNotFinite);
}

}  // namespace
}  // namespace tandem::ps
