#include "cluster/earlier_work.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/store.h"
#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;

class EarlierWork : public testing::Test {
 protected:
  void SetUp() override {
    auto created = RunDirectory::create_at(scratch.path() / "run");
    ASSERT_TRUE(created.ok());
    directory.emplace(*std::move(created));
  }
  // 50 steps an epoch, 8 samples a step.
  fs::path keep(std::int64_t step, float weight) const {
    const std::vector<float> weights = {weight};
    const checkpoint::ModelContent model{{{"w", {1}, weights}}, {}, {}};
    const checkpoint::ModelContent training{
        {{"optimizer.momentum", {1}, weights}},
        {},
        {{checkpoint::kStepsPerEpoch, "50"},
         {checkpoint::kNumbers,
          R"({"samples": ")" + std::to_string(8 * step) + R"(", "train_s": "2.5"})"}}};
    EXPECT_TRUE(checkpoint::write_checkpoint(directory->checkpoints(), step, model, training).ok());
    const auto stored = checkpoint::list_checkpoints(directory->checkpoints());
    return stored.value().back().path;
  }
  Report report(const ResumePoint* point = nullptr) const {
    Report made;
    add_earlier_work(made, *directory, point);
    return made;
  }

  ScratchDirectory scratch;
  std::optional<RunDirectory> directory;
};

TEST_F(EarlierWork, IsThatOfTheNewestCheckpoint) {
  keep(40, 1);
  const fs::path newest = keep(120, 2);
  const Report made = report();
  EXPECT_EQ(made.steps, 120);
  EXPECT_EQ(made.epochs, 2);
  EXPECT_EQ(made.samples, 960);
  EXPECT_EQ(made.train_s, 2.5);
  EXPECT_EQ(made.weights_hash,
            checkpoint::verify_model(newest / checkpoint::kModelFileName)->weights_hash);
  EXPECT_EQ(made.model, "");
}

TEST_F(EarlierWork, IsThatOfTheCheckpointThatWasChosen) {
  const fs::path chosen = keep(40, 1);
  keep(120, 2);
  const ResumePoint point{chosen, 40, {}, {}}, start;
  EXPECT_EQ(report(&point).steps, 40);
  EXPECT_EQ(report(&start).steps, 0);
}

TEST_F(EarlierWork, PassesOverWhatCannotBeRead) {
  keep(40, 1);
  const fs::path newest = keep(120, 2);
  ASSERT_TRUE(write_file_atomic(newest / "model.manifest.json", "{").ok());
  EXPECT_EQ(report().steps, 40);
  EXPECT_EQ(report().samples, 320);
}

TEST_F(EarlierWork, NamesTheModelThatHasTheseWeights) {
  keep(40, 1);
  const fs::path newest = keep(120, 2);
  for (const char* name : {"model.safetensors", "model.manifest.json"})
    fs::copy(newest / name, directory->path() / name);
  EXPECT_EQ(report().model, "model.safetensors");
  fs::remove_all(newest);
  EXPECT_EQ(report().model, "");
}

TEST_F(EarlierWork, OfARunWithoutCheckpointsIsNone) {
  const Report made = report();
  EXPECT_EQ(made.steps, 0);
  EXPECT_EQ(made.weights_hash, "");
}

}  // namespace
}  // namespace tandem::cluster
