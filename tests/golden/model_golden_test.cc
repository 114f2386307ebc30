// Trains the standard models from the weights and data of make_model_golden.py and compares each
// step's loss with PyTorch's (model.txt).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "train/recipe.h"
#include "train/stepper.h"

namespace tandem {
namespace {

float number(std::uint64_t index) {
  const auto hashed = static_cast<std::uint32_t>(index * 2654435761U);
  return static_cast<float>(hashed >> 8) * 0x1.0p-23F - 1.0F;
}

std::map<std::string, std::vector<double>> golden_losses() {
  std::map<std::string, std::vector<double>> losses;
  std::ifstream file(TANDEM_GOLDEN_DIRECTORY "/model.txt");
  std::string name;
  std::int64_t step = 0;
  for (double loss = 0; file >> name >> step >> loss;) losses[name].push_back(loss);
  return losses;
}

void set_weights(model::Model& model) {
  std::uint64_t first = 0;
  for (const arch::Slot& slot : model.blueprint().slots) {
    if (slot.kind != arch::SlotKind::kParameter) continue;
    double fan_in = 100;
    if (slot.shape.size() > 1) fan_in = static_cast<double>(slot.size / slot.shape[0]);
    const auto scale = static_cast<float>(1 / std::sqrt(fan_in));
    const float start = slot.fill == arch::Fill::kOnes ? 1.0F : 0.0F;
    for (std::int64_t i = 0; i < slot.size; ++i) {
      model.parameters()[static_cast<std::size_t>(slot.offset + i)] =
          start + number(first++) * scale;
    }
  }
  model.parameters_changed();
}

struct Case {
  std::string name;
  arch::ModelConfig config;
  data::Spec spec;
  data::Batch batch;
  double tolerance = 1e-4;
  double lr = 0.02;
};

Case image_case(std::string name, arch::ModelConfig config, std::vector<std::int64_t> shape,
                std::int64_t samples) {
  Case result{.name = std::move(name), .config = std::move(config)};
  result.spec.shape = std::move(shape);
  result.spec.classes = 10;
  result.batch.size = samples;
  for (std::int64_t i = 0; i < samples * result.spec.sample_size(); ++i) {
    result.batch.inputs.push_back(number(1000 + static_cast<std::uint64_t>(i)));
  }
  for (std::int32_t i = 0; i < samples; ++i) result.batch.classes.push_back(7 * i % 10);
  return result;
}

Case text_case() {
  Case result{.name = "gpt", .config = {.kind = "gpt", .width = 32, .heads = 4, .blocks = 2}};
  result.spec = {
      .input = data::Input::kTokens, .shape = {12}, .classes = 20, .targets_per_sample = 12};
  result.batch.size = 6;
  for (std::int32_t i = 0; i < 6; ++i) {
    for (std::int32_t j = 0; j < 12; ++j) {
      result.batch.tokens.push_back((5 * i + 3 * j + i * j) % 20);
      result.batch.classes.push_back((result.batch.tokens.back() + 1) % 20);
    }
  }
  return result;
}

void expect_losses_of(const Case& test, const std::vector<double>& golden) {
  ASSERT_FALSE(golden.empty()) << test.name;
  job::Job job;
  job.model.config = test.config;
  job.train.optimizer.lr = test.lr;
  job.train.optimizer.momentum = 0.9;
  auto blueprint = train::blueprint_of(job, test.spec);
  ASSERT_TRUE(blueprint.ok()) << blueprint.error().message();
  const std::int64_t parameters = blueprint->parameters;
  auto model = model::Model::create(std::move(blueprint).value(), job.train.loss, 1);
  ASSERT_TRUE(model.ok()) << model.error().message();
  (*model)->initialise(1);
  set_weights(**model);
  collective::Group alone;
  auto stepper = train::Stepper::create(
      job, **model,
      {.parameters = {{0, parameters}}, .buffers = {{0, (*model)->blueprint().buffers}}}, alone);
  ASSERT_TRUE(stepper.ok()) << stepper.error().message();
  for (std::size_t step = 0; step < golden.size(); ++step) {
    const auto number_of_step = static_cast<std::int64_t>(step);
    ASSERT_TRUE((*stepper)->begin_step(number_of_step, job.train.optimizer.lr).ok());
    ASSERT_TRUE((*stepper)->run_lane(test.batch, 0, test.batch.size).ok());
    const auto outcome = (*stepper)->finish_step();
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_NEAR(outcome->sums.loss / static_cast<double>(test.batch.size), golden[step],
                test.tolerance)
        << test.name << " step " << step;
  }
}

TEST(ModelGolden, MlpFollowsPyTorchFor50Steps) {
  const auto golden = golden_losses()["mlp"];
  ASSERT_EQ(golden.size(), 50U);
  expect_losses_of(image_case("mlp", {.kind = "mlp", .hidden = {48, 32}}, {1, 8, 8}, 16), golden);
}

TEST(ModelGolden, CnnFollowsPyTorch) {
  expect_losses_of(image_case("cnn", {.kind = "cnn"}, {1, 8, 8}, 16), golden_losses()["cnn"]);
}

// Batch-norm over four samples magnifies rounding from step to step, and these gradients are large,
// so the steps are small.
TEST(ModelGolden, Resnet18FollowsPyTorch) {
  Case test = image_case("resnet18", {.kind = "resnet18"}, {3, 32, 32}, 4);
  test.lr = 1e-6;
  test.tolerance = 1e-2;
  expect_losses_of(test, golden_losses()["resnet18"]);
}

TEST(ModelGolden, GptFollowsPyTorch) {
  expect_losses_of(text_case(), golden_losses()["gpt"]);
}

}  // namespace
}  // namespace tandem
