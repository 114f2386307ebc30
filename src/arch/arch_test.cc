#include "arch/arch.h"

#include <gtest/gtest.h>

#include "arch/kinds.h"

namespace tandem::arch {
namespace {

const Interface kMnist{.input_shape = {1, 28, 28}, .outputs = 10};
const Interface kCifar{.input_shape = {3, 32, 32}, .outputs = 10};
const Interface kText{.tokens = true, .input_shape = {64}, .vocabulary = 96, .outputs = 96};

Blueprint built(const ModelConfig& config, const Interface& interface) {
  Result<Blueprint> result = build(config, interface);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? *result : Blueprint{};
}

TEST(Arch, CountsParametersAsPyTorchDoes) {
  EXPECT_EQ(built({.kind = "softmax"}, kMnist).parameters, 7850);
  EXPECT_EQ(built({.kind = "mlp"}, kMnist).parameters, 669706);
  EXPECT_EQ(built({.kind = "cnn"}, kMnist).parameters, 1199882);
  EXPECT_EQ(built({.kind = "resnet18"}, kCifar).parameters, 11173962);
  EXPECT_EQ(built({.kind = "gpt"}, kText).parameters, 826208);
}

TEST(Arch, LaysSlotsOutWithoutHoles) {
  const Blueprint blueprint = built({.kind = "resnet18"}, kCifar);
  std::int64_t parameters = 0, buffers = 0;
  for (const Slot& slot : blueprint.slots) {
    std::int64_t& end = slot.kind == SlotKind::kParameter ? parameters : buffers;
    EXPECT_EQ(slot.offset, end) << slot.name;
    end += slot.size;
  }
  EXPECT_EQ(parameters, blueprint.parameters);
  EXPECT_EQ(buffers, blueprint.buffers);
  EXPECT_EQ(blueprint.blocks.front().first_slot, 0);
  EXPECT_EQ(blueprint.blocks.back().last_slot, static_cast<std::int64_t>(blueprint.slots.size()));
}

TEST(Arch, CutsAUsersLayersIntoBlocksAtWeights) {
  const std::vector<Layer> layers = {{.kind = LayerKind::kConv, .out = 8},
                                     {.kind = LayerKind::kRelu},
                                     {.kind = LayerKind::kMaxPool},
                                     {.kind = LayerKind::kFlatten},
                                     {.kind = LayerKind::kLinear, .out = 16},
                                     {.kind = LayerKind::kTanh},
                                     {.kind = LayerKind::kLinear}};
  const std::vector<NamedBlock> blocks = cut_into_blocks(layers);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].layers.size(), 4U);
  EXPECT_EQ(blocks[2].layers.size(), 1U);
}

TEST(Arch, InfersTheLastLinearLayersSize) {
  const ModelConfig config{.kind = "layers",
                           .layers = {{.kind = LayerKind::kFlatten}, {.kind = LayerKind::kLinear}}};
  const Blueprint blueprint = built(config, kMnist);
  EXPECT_EQ(blueprint.slots[0].name, "linear1.weight");
  EXPECT_EQ(blueprint.slots[0].shape, (std::vector<std::int64_t>{10, 784}));
}

TEST(Arch, NamesLayersUnlikeThoseThatHaveAName) {
  const ModelConfig config{.kind = "layers",
                           .layers = {{.kind = LayerKind::kConv, .out = 2},
                                      {.kind = LayerKind::kConv, .out = 2, .name = "conv1"},
                                      {.kind = LayerKind::kConv, .out = 2, .name = "linear1"},
                                      {.kind = LayerKind::kFlatten},
                                      {.kind = LayerKind::kLinear}}};
  std::vector<std::string> names;
  for (const Slot& slot : built(config, kMnist).slots) names.push_back(slot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv2.weight", "conv2.bias", "conv1.weight",
                                             "conv1.bias", "linear1.weight", "linear1.bias",
                                             "linear2.weight", "linear2.bias"}));
}

struct Misfit {
  std::vector<Layer> layers;
  std::int64_t layer;
  std::string part;
};

TEST(Arch, SaysWhichLayerDoesNotFitAndWhy) {
  const Misfit misfits[] = {
      {{{.kind = LayerKind::kLinear, .out = 4}}, 0, "put a flatten layer before it"},
      {{{.kind = LayerKind::kFlatten}, {.kind = LayerKind::kConv, .out = 4}},
       1,
       "convolutions come before"},
      {{{.kind = LayerKind::kConv, .out = 4, .kernel = 29}}, 0, "does not fit an image of 1x28x28"},
      {{{.kind = LayerKind::kConv}}, 0, "needs `out`"},
      {{{.kind = LayerKind::kEmbedding, .out = 4}}, 0, "reads characters"},
      {{{.kind = LayerKind::kFlatten}, {.kind = LayerKind::kLinear, .out = 3}},
       1,
       "gives 3 numbers"},
      {{{.kind = LayerKind::kDropout, .rate = 1.0}}, 0, "[0, 1)"},
      {{{.kind = LayerKind::kLayerNorm}}, 0, "use batchnorm for images"},
      {{{.kind = LayerKind::kMaxPool, .kernel = 2, .padding = 2}}, 0, "half the kernel"},
      {{{.kind = LayerKind::kConv, .out = 2, .name = "a"},
        {.kind = LayerKind::kConv, .out = 2, .name = "a"}},
       1,
       "named `a` and `a` would both have the tensor `a.weight`"},
      {{{.kind = LayerKind::kResidual, .out = 2, .name = "a"},
        {.kind = LayerKind::kConv, .out = 2, .name = "a.conv1"}},
       1,
       "named `a` and `a.conv1` would both have the tensor `a.conv1.weight`"},
  };
  for (const Misfit& misfit : misfits) {
    LayerError where;
    const Result<Blueprint> result =
        build({.kind = "layers", .layers = misfit.layers}, kMnist, &where);
    ASSERT_FALSE(result.ok()) << misfit.part;
    EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
    EXPECT_NE(result.error().message().find(misfit.part), std::string::npos)
        << result.error().message();
    EXPECT_EQ(where.layer, misfit.layer) << misfit.part;
  }
}

TEST(Arch, RefusesModelsThatCannotReadTheData) {
  EXPECT_FALSE(build({.kind = "cnn"}, Interface{.input_shape = {30}, .outputs = 2}).ok());
  EXPECT_FALSE(build({.kind = "cnn"}, kText).ok());
  EXPECT_FALSE(build({.kind = "gpt"}, kMnist).ok());
  EXPECT_FALSE(build({.kind = "gpt", .width = 10, .heads = 4}, kText).ok());
}

}  // namespace
}  // namespace tandem::arch
