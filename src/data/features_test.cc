#include "data/features.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <numeric>

#include "data/memory.h"

namespace tandem::data {
namespace {

Features byte_features(std::int64_t count, std::int64_t width, const std::string& bytes) {
  Features features;
  features.count = count;
  features.width = width;
  features.offset = 2;
  features.bytes = "??" + bytes;
  return features;
}

Features float_features(std::int64_t count, std::int64_t width, std::vector<float> floats) {
  Features features;
  features.count = count;
  features.width = width;
  features.floats = std::move(floats);
  return features;
}

std::vector<float> written(const Features& features, const Normalisation& normalisation,
                           std::int64_t sample) {
  std::vector<float> out(static_cast<std::size_t>(features.width));
  write_sample(features, normalisation, sample, out.data());
  return out;
}

TEST(Features, NormalisationGivesMeanZeroAndDeviationOne) {
  EXPECT_TRUE(rc::check([] {
    const auto rows = *rc::gen::inRange<std::size_t>(2, 40);
    const auto width = *rc::gen::inRange<std::size_t>(1, 40);
    std::string bytes(rows * width, '\0');
    for (char& byte : bytes) byte = static_cast<char>(*rc::gen::inRange(0, 256));
    const Features features =
        byte_features(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width), bytes);
    std::vector<std::uint32_t> all(rows);
    std::iota(all.begin(), all.end(), 0U);
    const Normalisation normalisation = learn_normalisation(features, all, 1);
    double sum = 0;
    double squares = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      for (float value : written(features, normalisation, static_cast<std::int64_t>(row))) {
        RC_ASSERT(std::isfinite(value));
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
    }
    const auto count = static_cast<double>(bytes.size());
    RC_ASSERT(std::abs(sum / count) < 1e-4);
    RC_ASSERT(squares == 0 || std::abs(squares / count - 1) < 1e-4);
  }));
}

TEST(Features, LearnsFromTheNamedRowsOnly) {
  const Features features = float_features(3, 1, {1, 1000, 3});
  const Normalisation normalisation =
      learn_normalisation(features, std::vector<std::uint32_t>{0, 2}, 1);
  EXPECT_FLOAT_EQ(normalisation.mean[0], 2);
  EXPECT_FLOAT_EQ(normalisation.inverse_deviation[0], 1);
}

TEST(Features, NormalisesByChannelAndByColumn) {
  const Features images = byte_features(1, 4, {0, 10, 20, 30});
  EXPECT_EQ(written(images, {{5, 25}, {0.2F, 0.5F}}, 0), (std::vector<float>{-1, 1, -2.5, 2.5}));
  EXPECT_EQ(written(images, {{0, 1, 2, 3}, {1, 1, 1, 2}}, 0), (std::vector<float>{0, 9, 18, 54}));
  const Features rows = float_features(2, 2, {0, 0, 4, 8});
  EXPECT_EQ(written(rows, {{2, 4}, {0.5F, 0.25F}}, 1), (std::vector<float>{1, 1}));
  EXPECT_EQ(written(rows, {{4}, {0.5F}}, 1), (std::vector<float>{0, 2}));
}

TEST(Features, ConstantColumnsStayFinite) {
  for (float value : {0.0F, 7.0F, 0.1F, -1e18F, 1e-30F}) {
    const Features features = float_features(3, 1, {value, value, value});
    const Normalisation normalisation =
        learn_normalisation(features, std::vector<std::uint32_t>{0, 1, 2}, 1);
    EXPECT_EQ(normalisation.inverse_deviation[0], 1.0F);
    EXPECT_EQ(written(features, normalisation, 1), std::vector<float>{0});
  }
}

TEST(Features, ExtremeColumnsStayFinite) {
  const Features features =
      float_features(4, 2, {1e18F, 1e-18F, -1e18F, -1e-18F, 1e18F, 1e18F, 0, -1e18F});
  const Normalisation normalisation =
      learn_normalisation(features, std::vector<std::uint32_t>{0, 1}, 2);
  for (std::int64_t row = 0; row < 4; ++row) {
    for (float value : written(features, normalisation, row)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Features, PutsChannelsFirst) {
  Features bytes = byte_features(2, 4, "abcdABCD");
  put_channels_first(bytes, 2, 2);
  EXPECT_EQ(bytes.bytes, "??acbdACBD");
  Features floats = float_features(1, 6, {1, 2, 3, 4, 5, 6});
  put_channels_first(floats, 2, 3);
  EXPECT_EQ(floats.floats, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(SampleSet, GathersInOrderAndKeepsItsMemory) {
  Spec spec;
  spec.shape = {2};
  spec.target = Target::kValue;
  spec.target_width = 1;
  Targets targets;
  targets.values = {10, 20, 30};
  const SampleSet set(spec,
                      std::make_shared<const Features>(float_features(3, 2, {1, 2, 3, 4, 5, 6})),
                      std::make_shared<const Targets>(targets), no_normalisation(2), {2, 0});
  Batch batch;
  reserve(spec, 3, batch);
  const float* const place = batch.inputs.data();
  set.gather(std::vector<std::uint32_t>{1, 0, 0}, batch);
  EXPECT_EQ(batch.size, 3);
  EXPECT_EQ(batch.inputs, (std::vector<float>{1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(batch.values, (std::vector<float>{10, 30, 30}));
  EXPECT_TRUE(batch.classes.empty());
  set.gather({}, batch);
  EXPECT_EQ(batch.size, 0);
  set.gather(std::vector<std::uint32_t>{0, 1, 0}, batch);
  EXPECT_EQ(batch.inputs.data(), place);
}

TEST(WindowSet, TargetsAreTheNextTokens) {
  Spec spec;
  spec.input = Input::kTokens;
  spec.shape = {3};
  spec.classes = 10;
  spec.targets_per_sample = 3;
  const auto tokens = std::make_shared<const std::vector<std::uint16_t>>(
      std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const WindowSet set(spec, tokens, {1, 9}, 2);
  EXPECT_EQ(set.size(), 3);
  Batch batch;
  set.gather(std::vector<std::uint32_t>{2, 0}, batch);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{5, 6, 7, 1, 2, 3}));
  EXPECT_EQ(batch.classes, (std::vector<std::int32_t>{6, 7, 8, 2, 3, 4}));
}

TEST(WindowSet, CountsWindowsThatFit) {
  EXPECT_EQ(WindowSet::count({0, 3}, 3, 1), 0);  // No token is left to be the last target.
  EXPECT_EQ(WindowSet::count({0, 4}, 3, 1), 1);
  EXPECT_EQ(WindowSet::count({0, 5}, 3, 1), 2);
  EXPECT_EQ(WindowSet::count({0, 7}, 3, 3), 2);
  EXPECT_EQ(WindowSet::count({5, 5}, 3, 3), 0);
}

}  // namespace
}  // namespace tandem::data
