#include "job/override.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job/parse.h"

namespace tandem::job {
namespace {

constexpr std::string_view kFile = R"(
[model]
kind = "mlp"
[train]
epochs = 3
optimizer = { kind = "sgd", lr = 0.5, momentum = 0.9 }
schedule = "cosine"
)";

Job with(const std::vector<std::string>& overrides) {
  const Result<Job> job = parse(kFile, "a.toml", overrides);
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message());
  return job.ok() ? *job : Job{};
}

TEST(Override, ReplacesAValue) {
  EXPECT_EQ(with({"train.epochs=7"}).train.epochs, 7);
}

TEST(Override, AddsAKeyAndASection) {
  const Job job = with({"train.batch=8", "cluster.lanes=4", "name=foo"});
  EXPECT_EQ(job.train.batch, 8);
  EXPECT_EQ(job.cluster.lanes, 4);
  EXPECT_EQ(job.name, "foo");
}

TEST(Override, ChangesOneKeyOfAnInlineTable) {
  const Job job = with({"train.optimizer.lr=0.1"});
  EXPECT_EQ(job.train.optimizer.lr, 0.1);
  EXPECT_EQ(job.train.optimizer.momentum, 0.9);
}

TEST(Override, MakesATableThatTheFileDoesNotHave) {
  EXPECT_EQ(with({"train.clip.norm=2"}).train.clip.norm, 2);
}

TEST(Override, ChangesATableThatTheFileGivesAsAWord) {
  const Job job = with({"train.schedule.warmup_steps=5"});
  EXPECT_EQ(job.train.schedule.kind, optim::ScheduleKind::kCosine);
  EXPECT_EQ(job.train.schedule.warmup_steps, 5);
}

TEST(Override, ReplacesAWholeTable) {
  EXPECT_EQ(with({"train.optimizer=adam"}).train.optimizer.lr, 0.001);
  EXPECT_EQ(with({"train.optimizer={kind=\"adam\", beta1=0.5}"}).train.optimizer.beta1, 0.5);
  EXPECT_EQ(with({"train.optimizer=adam", "train.optimizer.lr=3"}).train.optimizer.lr, 3);
}

TEST(Override, TheLastOneCounts) {
  EXPECT_EQ(with({"train.epochs=7", "train.epochs=8"}).train.epochs, 8);
}

TEST(Override, TakesStringsWithAndWithoutQuotes) {
  EXPECT_EQ(with({"name=\"a.b\""}).name, "a.b");
  EXPECT_EQ(with({"name='a'"}).name, "a");
  EXPECT_EQ(with({"name=5"}).name, "5");
  EXPECT_EQ(with({"model.init_from=runs/a=b#1"}).model.init_from, "runs/a=b#1");
  EXPECT_EQ(with({"data.source=csv", "data.path=a b.csv", "data.label=-1"}).data.label, "-1");
}

TEST(Override, TakesLists) {
  const Job job = with({"model.hidden=[64, 32]", "model.freeze=[\"fc1*\"]"});
  EXPECT_EQ(job.model.config.hidden, (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(job.model.freeze, std::vector<std::string>{"fc1*"});
}

TEST(Override, CannotSmuggleFurtherKeysIn) {
  EXPECT_FALSE(parse(kFile, "a.toml", std::vector<std::string>{"train.epochs=1\nname=\"x\""}).ok());
}

}  // namespace
}  // namespace tandem::job
