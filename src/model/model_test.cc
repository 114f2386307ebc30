#include "model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "model/libraries.h"
#include "model/testing.h"

namespace tandem::model {
namespace {

using arch::LayerKind;

const arch::Interface kImages{.input_shape = {3, 9, 9}, .outputs = 5};
const arch::Interface kRows{.input_shape = {12}, .outputs = 5};
const arch::Interface kText{.tokens = true, .input_shape = {7}, .vocabulary = 11, .outputs = 11};
const arch::Interface kLongText{
    .tokens = true, .input_shape = {39}, .vocabulary = 11, .outputs = 11};

data::Batch random_batch(const arch::Interface& interface, std::int64_t size, std::uint64_t seed) {
  data::Batch batch;
  batch.size = size;
  Rng rng({seed});
  const auto numbers =
      size * std::accumulate(interface.input_shape.begin(), interface.input_shape.end(),
                             std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < numbers; ++i) {
    if (interface.tokens) {
      batch.tokens.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(interface.vocabulary))));
    } else {
      batch.inputs.push_back(rng.normal());
    }
  }
  const std::int64_t targets = interface.tokens ? numbers : size;
  for (std::int64_t i = 0; i < targets; ++i) {
    batch.classes.push_back(
        static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(interface.outputs))));
  }
  return batch;
}

arch::ModelConfig layers(std::vector<arch::Layer> list) {
  return {.kind = "layers", .layers = std::move(list)};
}

struct LayerCase {
  std::string name;
  std::vector<arch::Layer> layers;
  arch::Interface interface;
};

class LayerGradients : public ::testing::TestWithParam<LayerCase> {};

TEST_P(LayerGradients, AgreeWithFiniteDifferences) {
  const auto model = make(layers(GetParam().layers), GetParam().interface);
  expect_gradients_match(*model, random_batch(GetParam().interface, 6, 5));
}

const arch::Layer kFlat{.kind = LayerKind::kFlatten}, kLast{.kind = LayerKind::kLinear};
const arch::Layer kConv{.kind = LayerKind::kConv, .out = 10, .kernel = 3, .padding = 1};

INSTANTIATE_TEST_SUITE_P(
    EveryKind, LayerGradients,
    ::testing::Values(
        LayerCase{"linear", {{.kind = LayerKind::kLinear, .out = 9}, kLast}, kRows},
        LayerCase{"linear_relu",
                  {{.kind = LayerKind::kLinear, .out = 9}, {.kind = LayerKind::kRelu}, kLast},
                  kRows},
        LayerCase{"linear_no_bias",
                  {{.kind = LayerKind::kLinear, .out = 9, .bias = false},
                   {.kind = LayerKind::kRelu},
                   kLast},
                  kRows},
        LayerCase{"gelu",
                  {{.kind = LayerKind::kLinear, .out = 9}, {.kind = LayerKind::kGelu}, kLast},
                  kRows},
        LayerCase{"tanh",
                  {{.kind = LayerKind::kLinear, .out = 9}, {.kind = LayerKind::kTanh}, kLast},
                  kRows},
        LayerCase{"dropout",
                  {{.kind = LayerKind::kLinear, .out = 9},
                   {.kind = LayerKind::kDropout, .rate = 0.4},
                   kLast},
                  kRows},
        LayerCase{"batchnorm",
                  {{.kind = LayerKind::kLinear, .out = 9}, {.kind = LayerKind::kBatchNorm}, kLast},
                  kRows},
        LayerCase{"layernorm",
                  {{.kind = LayerKind::kLinear, .out = 9}, {.kind = LayerKind::kLayerNorm}, kLast},
                  kRows},
        LayerCase{"norm_first", {{.kind = LayerKind::kLayerNorm}, kLast}, kRows},
        LayerCase{
            "conv",
            {kConv, {.kind = LayerKind::kConv, .out = 12, .kernel = 3, .stride = 2}, kFlat, kLast},
            kImages},
        LayerCase{
            "conv_relu",
            {kConv, {.kind = LayerKind::kRelu}, kConv, {.kind = LayerKind::kRelu}, kFlat, kLast},
            kImages},
        LayerCase{"conv_dropout",
                  {kConv, {.kind = LayerKind::kDropout, .rate = 0.3}, kConv, kFlat, kLast},
                  kImages},
        LayerCase{
            "conv_gelu",
            {kConv, {.kind = LayerKind::kGelu}, kConv, {.kind = LayerKind::kTanh}, kFlat, kLast},
            kImages},
        LayerCase{"max_pool",
                  {kConv, {.kind = LayerKind::kMaxPool, .kernel = 2, .stride = 0}, kFlat, kLast},
                  kImages},
        LayerCase{"overlapping_max_pool",
                  {kConv,
                   {.kind = LayerKind::kRelu},
                   {.kind = LayerKind::kMaxPool, .kernel = 3, .stride = 2, .padding = 1},
                   kConv,
                   kFlat,
                   kLast},
                  kImages},
        LayerCase{"avg_pool",
                  {kConv,
                   {.kind = LayerKind::kAvgPool, .kernel = 3, .stride = 2, .padding = 1},
                   kFlat,
                   kLast},
                  kImages},
        LayerCase{"global_avg_pool", {kConv, {.kind = LayerKind::kGlobalAvgPool}, kLast}, kImages},
        LayerCase{"image_batchnorm",
                  {kConv,
                   {.kind = LayerKind::kBatchNorm},
                   {.kind = LayerKind::kRelu},
                   kConv,
                   kFlat,
                   kLast},
                  kImages},
        LayerCase{
            "batchnorm_first", {{.kind = LayerKind::kBatchNorm}, kConv, kFlat, kLast}, kImages},
        LayerCase{"embedding",
                  {{.kind = LayerKind::kEmbedding, .out = 6, .position = true}, kLast},
                  kText},
        LayerCase{"decoder",
                  {{.kind = LayerKind::kEmbedding, .out = 8, .position = true},
                   {.kind = LayerKind::kDecoder, .heads = 2},
                   kLast},
                  kText},
        LayerCase{"wide_conv",
                  {{.kind = LayerKind::kConv, .out = 128, .padding = 1},
                   {.kind = LayerKind::kTanh},
                   {.kind = LayerKind::kConv, .out = 128, .padding = 1, .bias = false},
                   {.kind = LayerKind::kGlobalAvgPool},
                   kLast},
                  kImages},
        LayerCase{"middle_conv",
                  {{.kind = LayerKind::kConv, .out = 32, .padding = 1},
                   {.kind = LayerKind::kTanh},
                   {.kind = LayerKind::kConv, .out = 64, .padding = 0},
                   {.kind = LayerKind::kTanh},
                   {.kind = LayerKind::kConv, .out = 32, .padding = 2, .bias = false},
                   {.kind = LayerKind::kGlobalAvgPool},
                   kLast},
                  kImages},
        LayerCase{"middle_conv_relu_pool",
                  {{.kind = LayerKind::kConv, .out = 32, .padding = 1},
                   {.kind = LayerKind::kConv, .out = 32, .padding = 1},
                   {.kind = LayerKind::kRelu},
                   {.kind = LayerKind::kMaxPool, .kernel = 2, .stride = 0},  // Leaves some out.
                   kFlat,
                   kLast},
                  kImages},
        LayerCase{"wide_decoder",
                  {{.kind = LayerKind::kEmbedding, .out = 48, .position = true},
                   {.kind = LayerKind::kDecoder, .heads = 2},
                   kLast},
                  kLongText},
        LayerCase{"residual",
                  {kConv,
                   {.kind = LayerKind::kResidual, .out = 10},
                   {.kind = LayerKind::kResidual, .out = 16, .stride = 2},
                   {.kind = LayerKind::kGlobalAvgPool},
                   kLast},
                  kImages}),
    [](const auto& test) { return test.param.name; });

TEST(Model, LossesHaveTheirGradients) {
  for (const arch::Loss& loss :
       {arch::Loss{.class_weights = {1, 2, 0.5F, 3, 1}}, arch::Loss{.label_smoothing = 0.2},
        arch::Loss{.kind = arch::LossKind::kMse}, arch::Loss{.kind = arch::LossKind::kBce}}) {
    const auto model = make({.kind = "mlp", .hidden = {8}}, kRows, loss);
    expect_gradients_match(*model, random_batch(kRows, 6, 5));
  }
}

TEST(Model, RegressionHasItsGradient) {
  arch::Interface interface { .input_shape = {12}, .outputs = 2 };
  data::Batch batch = random_batch(interface, 4, 1);
  batch.classes.clear();
  for (int i = 0; i < 8; ++i) batch.values.push_back(static_cast<float>(i) * 0.1F);
  const auto model =
      make({.kind = "mlp", .hidden = {8}}, interface, {.kind = arch::LossKind::kMse});
  expect_gradients_match(*model, batch);
  EXPECT_EQ(run(*model, batch).sums.predictions, 0);
}

TEST(Model, SameCallGivesSameBitsWhateverRanBetween) {
  const auto model = make({.kind = "mlp", .hidden = {8}, .dropout = 0.5}, kRows);
  const data::Batch batch = random_batch(kRows, 6, 5);
  const Pieces first = run(*model, batch, {1, 5, 0});
  run(*model, random_batch(kRows, 3, 9), {1, 5, 1});
  EXPECT_EQ(run(*model, batch, {1, 5, 0}).gradients, first.gradients);
  EXPECT_NE(run(*model, batch, {1, 6, 0}).gradients, first.gradients)
      << "another step drops others";
  EXPECT_NE(run(*model, batch, {1, 5, 1}).gradients, first.gradients)
      << "another lane drops others";
  EXPECT_NE(run(*model, batch, {2, 5, 0}).gradients, first.gradients)
      << "another seed drops others";
}

TEST(Model, MoreThreadsAddUpTheSameGradients) {
  const arch::ModelConfig config = {.kind = "cnn"};
  const arch::Interface interface { .input_shape = {1, 12, 12}, .outputs = 5 };
  const data::Batch batch = random_batch(interface, 16, 5);
  const Pieces one = run(*make(config, interface), batch);
  auto model = Model::create(arch::build(config, interface).value(), {}, 2);
  ASSERT_TRUE(model.ok());
  (*model)->initialise(3);
  const Pieces two = run(**model, batch);
  set_kernel_threads(1);
  for (std::size_t i = 0; i < one.gradients.size(); ++i)
    ASSERT_NEAR(one.gradients[i], two.gradients[i], 1e-5) << i;
}

TEST(Model, DropoutDropsItsShareAndKeepsTheMean) {
  const auto model =
      make(layers({{.kind = LayerKind::kDropout, .rate = 0.25}, {.kind = LayerKind::kLinear}}),
           {.input_shape = {4000}, .outputs = 1}, {.kind = arch::LossKind::kMse});
  data::Batch batch;
  batch.size = 1;
  batch.inputs.assign(4000, 1.0F);
  batch.values.assign(1, 100.0F);
  const Pieces pieces = run(*model, batch);
  const auto dropped = std::count(pieces.gradients.begin(), pieces.gradients.begin() + 4000, 0.0F);
  EXPECT_NEAR(static_cast<double>(dropped), 1000, 120);
}

TEST(Model, HandsOnBatchStatisticsByTheLanesShare) {
  const auto model = make(
      layers({{.kind = LayerKind::kBatchNorm}, {.kind = LayerKind::kFlatten}, kLast}), kImages);
  const data::Batch batch = random_batch(kImages, 6, 5);
  std::vector<float> gradients(model->parameters().size()), statistics(model->buffers().size());
  ASSERT_TRUE(model->forward_backward(batch, 1.0F / 24, {}, {gradients, statistics, {}}).ok());
  double sum = 0;
  for (std::size_t n = 0; n < 6; ++n) {
    for (std::size_t i = 0; i < 81; ++i) sum += batch.inputs[n * 243 + i];
  }
  EXPECT_NEAR(statistics[0], sum / (6 * 81) * 0.25, 1e-5);
  std::vector<float> buffers = {1.0F};
  update_buffers(buffers, std::vector<float>{3.0F});
  EXPECT_FLOAT_EQ(buffers[0], 1.2F);
}

TEST(Model, SaysWhichGradientsAreReadyLastBlockFirst) {
  const auto model = make({.kind = "cnn"}, {.input_shape = {1, 8, 8}, .outputs = 5});
  const data::Batch batch = random_batch({.input_shape = {1, 8, 8}, .outputs = 5}, 2, 5);
  std::vector<float> gradients(model->parameters().size());
  std::int64_t next = model->blueprint().parameters;
  const LaneOutput output{gradients, {}, [&](std::int64_t begin, std::int64_t end) {
                            EXPECT_EQ(end, next);
                            next = begin;
                          }};
  ASSERT_TRUE(model->forward_backward(batch, 0.5F, {}, output).ok());
  EXPECT_EQ(next, 0);
}

TEST(Model, WritesNothingAfterAnErrorBetweenForwardAndBackward) {
  for (const auto& model :
       {make({.kind = "cnn"}, {.input_shape = {1, 8, 8}, .outputs = 5}),
        make(layers({{.kind = LayerKind::kBatchNorm}, {.kind = LayerKind::kFlatten}, kLast}),
             kImages)}) {
    const data::Batch batch = random_batch(model->blueprint().interface, 4, 5);
    std::vector<float> gradients(model->parameters().size(), 7),
        statistics(model->buffers().size(), 7);
    LaneOutput output{gradients, statistics, {}};
    output.turns = [] { return Status(Error(Code::kPeerLost, "worker 1 is gone")); };
    const auto sums = model->forward_backward(batch, 0.25F, {}, output);
    ASSERT_FALSE(sums.ok());
    EXPECT_EQ(sums.error().code(), Code::kPeerLost);
    EXPECT_EQ(std::count(gradients.begin(), gradients.end(), 7), std::ssize(gradients));
    EXPECT_EQ(std::count(statistics.begin(), statistics.end(), 7), std::ssize(statistics));
  }
}

TEST(Model, PredictsProbabilities) {
  const auto model = make({.kind = "mlp", .hidden = {8}}, kRows);
  const auto rows = model->predict(random_batch(kRows, 4, 5));
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 20U);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(std::accumulate(rows->begin() + static_cast<std::ptrdiff_t>(r * 5),
                                rows->begin() + static_cast<std::ptrdiff_t>(r * 5 + 5), 0.0F),
                1, 1e-5);
  }
}

TEST(Model, InitialisesByNameAndSeed) {
  const auto a = make({.kind = "cnn"}, {.input_shape = {1, 8, 8}, .outputs = 5});
  const std::vector<float> first(a->parameters().begin(), a->parameters().end());
  a->initialise(3);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), a->parameters().begin()));
  a->initialise(4);
  EXPECT_FALSE(std::equal(first.begin(), first.end(), a->parameters().begin()));
}

}  // namespace
}  // namespace tandem::model
