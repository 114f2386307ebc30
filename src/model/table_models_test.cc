// Models with tables of embeddings: matrix factorisation, and wide and deep.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "base/rows.h"
#include "model/model.h"
#include "model/row_kernels.h"
#include "model/testing.h"

namespace tandem::model {
namespace {

const arch::Interface kRatings{.input_shape = {2}, .outputs = 1, .ids = {{0, 5}, {1, 7}}};
// Ids in the first and the third of four inputs.
const arch::Interface kMixed{.input_shape = {4}, .outputs = 3, .ids = {{0, 5}, {2, 7}}};
const arch::Interface kOnlyIds{.input_shape = {2}, .outputs = 3, .ids = {{0, 5}, {1, 7}}};
const arch::Loss kMse{.kind = arch::LossKind::kMse};

// Ids are in the lower half of each table, so that several samples share rows and some rows have
// none; with values for targets where there is one output, classes otherwise.
data::Batch batch_of(const arch::Interface& interface, std::int64_t size, std::uint64_t seed) {
  data::Batch batch;
  batch.size = size;
  Rng rng({seed});
  for (std::int64_t i = 0; i < size; ++i) {
    auto id = interface.ids.begin();
    for (std::int64_t column = 0; column < interface.input_shape[0]; ++column) {
      if (id != interface.ids.end() && id->column == column) {
        batch.inputs.push_back(
            static_cast<float>(rng.below(static_cast<std::uint64_t>(id->rows / 2))));
        ++id;
      } else {
        batch.inputs.push_back(rng.normal());
      }
    }
    if (interface.outputs == 1) {
      batch.values.push_back(rng.normal());
    } else {
      batch.classes.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(interface.outputs))));
    }
  }
  return batch;
}

// Biases and wide weights begin at 0; with other numbers more can go wrong.
void shake(Model& model) {
  Rng rng({11});
  for (float& parameter : model.parameters()) parameter += 0.3F * rng.normal();
  model.parameters_changed();
}

std::span<const float> slot_of(Model& model, std::span<const float> flat, std::string_view name) {
  for (const arch::Slot& slot : model.blueprint().slots) {
    if (slot.name == name)
      return flat.subspan(static_cast<std::size_t>(slot.offset),
                          static_cast<std::size_t>(slot.size));
  }
  ADD_FAILURE() << "no slot " << name;
  return {};
}

const arch::ModelConfig kFactors{.kind = "matrix_factorization", .dim = 19, .scale = 0.5};
const arch::ModelConfig kWideDeep{
    .kind = "wide_deep", .hidden = {9, 8}, .dropout = 0.2, .dim = 3, .scale = 0.5};

TEST(TableModels, HaveTheGradientsOfFiniteDifferences) {
  const auto factors = make(kFactors, kRatings, kMse);
  shake(*factors);
  expect_gradients_match(*factors, batch_of(kRatings, 9, 5));
  const auto wide_deep = make(kWideDeep, kMixed);
  shake(*wide_deep);
  expect_gradients_match(*wide_deep, batch_of(kMixed, 9, 5));
  const auto no_dense = make(kWideDeep, kOnlyIds);
  shake(*no_dense);
  expect_gradients_match(*no_dense, batch_of(kOnlyIds, 9, 5));
}

TEST(TableModels, FactorsTellTwoClassesApart) {
  const auto model = make(kFactors, kRatings, {.kind = arch::LossKind::kBce});
  shake(*model);
  data::Batch batch = batch_of(kRatings, 9, 5);
  batch.values.clear();
  for (std::int32_t i = 0; i < 9; ++i) batch.classes.push_back(i % 2);
  expect_gradients_match(*model, batch);
  EXPECT_EQ(run(*model, batch).sums.predictions, 9);
}

TEST(TableModels, GiveRowsThatNoSampleUsesAGradientOfExactlyZero) {
  for (const auto& [config, interface] :
       {std::pair(kFactors, kRatings), std::pair(kWideDeep, kMixed)}) {
    const auto model = make(config, interface, interface.outputs == 1 ? kMse : arch::Loss{});
    const data::Batch batch = batch_of(interface, 6, 5);
    Pieces pieces;
    // What was there before does not shine through.
    pieces.gradients.assign(model->parameters().size(), 7.0F);
    ASSERT_TRUE(model->forward_backward(batch, 0.5F, {}, {pieces.gradients, {}, {}}).ok());
    for (const arch::Table& table : model->blueprint().tables) {
      const arch::Slot& slot = model->blueprint().slots[static_cast<std::size_t>(table.slot)];
      for (std::int64_t row = 0; row < table.rows; ++row) {
        bool used = false;
        for (std::int64_t i = 0; i < batch.size; ++i) {
          const std::int64_t at = i * interface.input_shape[0] + table.column;
          used = used || batch.inputs[static_cast<std::size_t>(at)] == static_cast<float>(row);
        }
        const auto* const first = pieces.gradients.data() + slot.offset + row * table.width;
        const bool zero = std::all_of(first, first + table.width, [](float g) { return g == 0; });
        EXPECT_EQ(zero, !used) << slot.name << " row " << row;
      }
    }
  }
}

TEST(TableModels, FactorsPredictBiasesAndProducts) {
  const auto model = make(kFactors, kRatings, kMse);
  shake(*model);
  data::Batch batch;
  batch.size = 1;
  batch.inputs = {4, 6};
  const auto at = [&](std::string_view name, std::size_t place) {
    return static_cast<double>(slot_of(*model, model->parameters(), name)[place]);
  };
  double expected = at("bias", 0) + at("user.bias", 4) + at("item.bias", 6);
  for (std::size_t i = 0; i < 19; ++i) {
    expected += at("user.weight", 4 * 19 + i) * at("item.weight", 6 * 19 + i);
  }
  const auto predicted = model->predict(batch);
  ASSERT_TRUE(predicted.ok());
  EXPECT_NEAR((*predicted)[0], expected, 1e-5);
}

TEST(TableModels, BeginWithRowsThatAServerCanMakeByItself) {
  const auto model = make(kFactors, kRatings, kMse);
  model->initialise(5);
  std::vector<float> row(19);
  begin_row(table_seed(5, "item.weight"), 3, 0.5F, row);
  const auto items = slot_of(*model, model->parameters(), "item.weight");
  EXPECT_TRUE(std::equal(row.begin(), row.end(), items.begin() + 3 * 19));
  for (const float bias : slot_of(*model, model->parameters(), "user.bias")) EXPECT_EQ(bias, 0);
}

TEST(TableModels, SaysWhatWasMeasuredAsSquaredErrors) {
  const auto model = make(kFactors, kRatings, kMse);
  const auto sums = model->evaluate(batch_of(kRatings, 4, 5));
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(sums->values, 4);
  EXPECT_EQ(make(kWideDeep, kMixed)->evaluate(batch_of(kMixed, 4, 5))->values, 0);
}

TEST(RowKernels, ProductsOfEveryLengthAreRight) {
  std::vector<float> a, b;
  double expected = 0;
  for (std::size_t length = 0; length < 70; ++length) {
    EXPECT_NEAR(dot(a.data(), b.data(), length), expected, 1e-4) << length;
    a.push_back(static_cast<float>(length % 7) - 3);
    b.push_back(static_cast<float>(length % 5) * 0.25F);
    expected += static_cast<double>(a.back()) * b.back();
  }
}

}  // namespace
}  // namespace tandem::model
