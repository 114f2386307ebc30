#include "job/idle.h"

#include <gtest/gtest.h>

#include "job/parse.h"
#include "job/print.h"

namespace tandem::job {
namespace {

using Sentences = std::vector<std::string>;

Sentences idle_of(const std::vector<std::string>& overrides) {
  const Result<Job> job = parse("[model]\nkind = \"mlp\"\n", "x.toml", overrides);
  EXPECT_TRUE(job.ok()) << job.error().message();
  return job.ok() ? idle_settings(*job) : Sentences();
}

TEST(Idle, IsNothingInAJobOfDefaults) {
  EXPECT_EQ(idle_of({}), Sentences());
  EXPECT_EQ(idle_of({"cluster.strategy=ps"}), Sentences());
  EXPECT_EQ(idle_of({"cluster.servers=1", "ps.consistency=bsp", "ps.staleness=3"}), Sentences())
      << "a run directory's job.toml holds every default";
}

TEST(Idle, IsWhateverIsSaidOfServersWithoutServers) {
  EXPECT_EQ(idle_of({"ps.consistency=asp"}),
            Sentences({"`ps.consistency` has no effect with cluster.strategy = \"allreduce\""}));
  EXPECT_EQ(
      idle_of({"cluster.servers=2", "cluster.replicas=2", "ps.quorum=0.5", "ps.pull=partial",
               "ps.staleness=1", "ps.transport=tcp", "ps.stale_lr=lowered", "ps.compensation=0.1"}),
      Sentences({"`cluster.servers`, `cluster.replicas`, `ps.staleness`, `ps.quorum`, "
                 "`ps.stale_lr`, `ps.compensation`, `ps.transport` and `ps.pull` have no "
                 "effect with cluster.strategy = \"allreduce\""}));
}

TEST(Idle, IsWhatSoftensOldGradientsWhereNoneAreOld) {
  EXPECT_EQ(idle_of({"cluster.strategy=ps", "ps.stale_lr=lowered", "ps.compensation=0.1"}),
            Sentences({"`ps.stale_lr` and `ps.compensation` have no effect with ps.consistency = "
                       "\"bsp\""}));
  EXPECT_EQ(idle_of({"cluster.strategy=ps", "ps.consistency=asp", "ps.stale_lr=lowered",
                     "ps.compensation=0.1"}),
            Sentences());
}

TEST(Idle, IsAStalenessThatNothingBounds) {
  EXPECT_EQ(idle_of({"cluster.strategy=ps", "ps.consistency=asp", "ps.staleness=5"}),
            Sentences({"`ps.staleness` has no effect with ps.consistency = \"asp\""}));
  EXPECT_EQ(idle_of({"cluster.strategy=ps", "ps.consistency=ssp", "ps.staleness=5"}), Sentences());
}

TEST(Idle, TellsOfRowsThatNoTrainingOfSoManyStepsMakes) {
  const std::string text =
      "[model]\nkind = \"matrix_factorization\"\n[data]\nsource = \"ratings\"\n[train]\nloss = "
      "\"mse\"\nsteps = 60\n[cluster]\nstrategy = \"ps\"\nlanes = 4\n[ps]\ntables = \"sparse\"\n";
  const auto told = [&](const std::vector<std::string>& overrides) {
    const Result<Job> job = parse(text, "x.toml", overrides);
    EXPECT_TRUE(job.ok()) << job.error().message();
    return job.ok() ? idle_settings(*job) : Sentences();
  };
  EXPECT_EQ(told({"ps.admit_after=59"}), Sentences());
  EXPECT_EQ(told({"ps.admit_after=60"}),
            Sentences({"no row of a table will be trained: `ps.admit_after` is 60, and training "
                       "has 60 steps"}));
  EXPECT_EQ(told({"ps.admit_after=60", "ps.consistency=asp"}), Sentences());
  EXPECT_EQ(told({"ps.admit_after=240", "ps.consistency=asp"}),
            Sentences({"no row of a table will be trained: `ps.admit_after` is 240, and training "
                       "has 240 tasks"}));
  EXPECT_EQ(told({"ps.admit_after=60", "train.steps=0"}), Sentences()) << "it is not known here";
}

TEST(Idle, IsWhenToMakeCheckpointsThatAreNotKept) {
  EXPECT_EQ(idle_of({"checkpoint.keep=0"}), Sentences());
  EXPECT_EQ(idle_of({"checkpoint.keep=0", "checkpoint.every_steps=10", "checkpoint.best=loss"}),
            Sentences({"`checkpoint.every_steps` and `checkpoint.best` have no effect with "
                       "checkpoint.keep = 0"}));
}

TEST(Idle, LeavesAJobValidWhenItsStrategyAloneChanges) {
  const std::vector<std::string> served = {"cluster.strategy=ps", "cluster.servers=2",
                                           "cluster.replicas=2", "ps.transport=tcp"};
  const Result<Job> job = parse("[model]\nkind = \"mlp\"\n", "x.toml", served);
  ASSERT_TRUE(job.ok()) << job.error().message();
  const Result<Job> other =
      parse(print(*job), "job.toml", std::vector<std::string>{"cluster.strategy=allreduce"});
  ASSERT_TRUE(other.ok()) << other.error().message();
  EXPECT_EQ(idle_settings(*other),
            Sentences({"`cluster.servers`, `cluster.replicas` and `ps.transport` have no effect "
                       "with cluster.strategy = \"allreduce\""}));
}

}  // namespace
}  // namespace tandem::job
