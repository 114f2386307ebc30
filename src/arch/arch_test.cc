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

const Interface kRatings{.input_shape = {2}, .outputs = 1, .ids = {{0, 30}, {1, 40}}};
// Ids in the first and the third of four inputs.
const Interface kMixed{.input_shape = {4}, .outputs = 3, .ids = {{0, 30}, {2, 40}}};

// Tables lie one after another from the start of the flat vector.
void expect_tables_first(const Blueprint& blueprint) {
  std::int64_t end = 0;
  for (const Table& table : blueprint.tables) {
    const Slot& slot = blueprint.slots[static_cast<std::size_t>(table.slot)];
    EXPECT_EQ(slot.offset, end) << slot.name;
    EXPECT_EQ(slot.shape, (std::vector<std::int64_t>{table.rows, table.width})) << slot.name;
    end += table.rows * table.width;
  }
}

std::vector<std::string> names_of(const Blueprint& blueprint) {
  std::vector<std::string> names;
  for (const Slot& slot : blueprint.slots) names.push_back(slot.name);
  return names;
}

TEST(Arch, FactorsAreTablesOfUsersAndItems) {
  const Blueprint blueprint = built({.kind = "matrix_factorization", .dim = 8}, kRatings);
  EXPECT_EQ(names_of(blueprint), (std::vector<std::string>{"user.weight", "item.weight",
                                                           "user.bias", "item.bias", "bias"}));
  EXPECT_EQ(blueprint.parameters, 70 * 9 + 1);
  ASSERT_EQ(blueprint.tables.size(), 4U);
  EXPECT_EQ(blueprint.tables[1].column, 1);
  EXPECT_EQ(blueprint.tables[2].width, 1);
  expect_tables_first(blueprint);
}

TEST(Arch, WideAndDeepHaveATableEachForEveryIdColumn) {
  const Blueprint blueprint = built({.kind = "wide_deep", .hidden = {16}, .dim = 8}, kMixed);
  EXPECT_EQ(names_of(blueprint),
            (std::vector<std::string>{"embedding1.weight", "embedding2.weight", "wide1.weight",
                                      "wide2.weight", "wide.weight", "fc1.weight", "fc1.bias",
                                      "fc2.weight", "fc2.bias"}));
  // Embeddings, wide weights, dense features, two linear layers.
  EXPECT_EQ(blueprint.parameters, 70 * 8 + 70 * 3 + 2 * 3 + (18 * 16 + 16) + (16 * 3 + 3));
  ASSERT_EQ(blueprint.tables.size(), 4U);
  EXPECT_EQ(blueprint.tables[3].column, 2);
  EXPECT_EQ(blueprint.tables[3].width, 3);
  expect_tables_first(blueprint);
}

TEST(Arch, OnlyModelsWithTablesReadIds) {
  const auto refuses = [](const ModelConfig& config, const Interface& interface,
                          std::string_view part) {
    const Result<Blueprint> result = build(config, interface);
    ASSERT_FALSE(result.ok()) << part;
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
  };
  refuses({.kind = "mlp"}, kMixed, "`mlp` cannot read data.categorical");
  refuses({.kind = "layers", .layers = {{.kind = LayerKind::kLinear}}}, kMixed, "cannot read");
  refuses({.kind = "wide_deep"}, {.input_shape = {4}, .outputs = 3}, "data.categorical");
  refuses({.kind = "matrix_factorization"}, kMixed, "4 inputs, 2 of them categorical");
  refuses({.kind = "matrix_factorization"},
          {.input_shape = {2}, .outputs = 5, .ids = {{0, 3}, {1, 4}}}, "predicts one number");
  refuses({.kind = "matrix_factorization", .dim = 1 << 16},
          {.input_shape = {2}, .outputs = 1, .ids = {{0, 1 << 24}, {1, 4}}}, "too large");
}

TEST(Arch, RefusesModelsThatCannotReadTheData) {
  EXPECT_FALSE(build({.kind = "cnn"}, Interface{.input_shape = {30}, .outputs = 2}).ok());
  EXPECT_FALSE(build({.kind = "cnn"}, kText).ok());
  EXPECT_FALSE(build({.kind = "gpt"}, kMnist).ok());
  EXPECT_FALSE(build({.kind = "gpt", .width = 10, .heads = 4}, kText).ok());
}

}  // namespace
}  // namespace tandem::arch
