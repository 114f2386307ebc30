#include "train/recipe.h"

#include <gtest/gtest.h>

namespace tandem::train {
namespace {

data::Spec digits_spec() {
  data::Spec spec;
  spec.shape = {1, 8, 8};
  spec.classes = 10;
  return spec;
}

arch::Blueprint cnn() {
  job::Job job;
  job.model.config.kind = "cnn";
  return blueprint_of(job, digits_spec()).value();
}

TEST(Recipe, GlobsMatchLikeAShells) {
  EXPECT_TRUE(glob_matches("conv*", "conv1.weight"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*.bias", "fc1.bias"));
  EXPECT_TRUE(glob_matches("fc?.w*t", "fc1.weight"));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbXbc"));
  EXPECT_FALSE(glob_matches("conv", "conv1.weight"));
  EXPECT_FALSE(glob_matches("fc?", "fc"));
  EXPECT_FALSE(glob_matches("", "fc"));
}

TEST(Recipe, FreezesWhatTheGlobsNameAndJoinsTheRest) {
  const arch::Blueprint blueprint = cnn();
  EXPECT_EQ(trainable_ranges(blueprint, {}).value().parameters,
            (std::vector<optim::Range>{{0, blueprint.parameters}}));
  const auto trainable = trainable_ranges(blueprint, {"conv*"});
  ASSERT_TRUE(trainable.ok());
  ASSERT_EQ(trainable->parameters.size(), 1U);
  const optim::Range rest = trainable->parameters[0];
  EXPECT_EQ(rest.end, blueprint.parameters);
  EXPECT_EQ(slot_at(blueprint, arch::SlotKind::kParameter, rest.begin).name, "fc1.weight");
}

TEST(Recipe, RefusesGlobsThatMatchNothingOrEverything) {
  const auto typo = trainable_ranges(cnn(), {"conv1.wieght"});
  ASSERT_FALSE(typo.ok());
  EXPECT_NE(typo.error().message().find("did you mean `conv1.weight`?"), std::string::npos)
      << typo.error().message();
  EXPECT_FALSE(trainable_ranges(cnn(), {"*"}).ok());
}

TEST(Recipe, CountsTheShortLastBatch) {
  job::Train train;
  train.batch = 64;
  train.epochs = 3;
  EXPECT_EQ(length_of(train, 129).steps_per_epoch, 3);
  EXPECT_EQ(length_of(train, 129).total_steps, 9);
  train.steps = 5;
  EXPECT_EQ(length_of(train, 129).total_steps, 5);
}

TEST(Recipe, FitsTheLossToTheData) {
  data::Spec spec = digits_spec();
  EXPECT_EQ(interface_of(spec, {}).value().outputs, 10);
  EXPECT_FALSE(interface_of(spec, {.class_weights = {1, 2}}).ok());
  spec.classes = 2;
  EXPECT_EQ(interface_of(spec, {.kind = arch::LossKind::kBce}).value().outputs, 1);
  spec.target = data::Target::kValue;
  spec.target_width = 3;
  EXPECT_EQ(interface_of(spec, {.kind = arch::LossKind::kMse}).value().outputs, 3);
  EXPECT_FALSE(interface_of(spec, {}).ok()) << "cross entropy needs classes";
}

}  // namespace
}  // namespace tandem::train
