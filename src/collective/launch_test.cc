#include <gtest/gtest.h>

#include <map>

#include "collective/join.h"

namespace tandem::collective {
namespace {

Result<std::optional<JoinOptions>> read(const std::map<std::string, std::string>& environment) {
  return join_options_from([&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Launch, SaysNothingWhenTheEnvironmentDoes) {
  const auto options = read({{"PATH", "/bin"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->has_value());
}

TEST(Launch, ReadsRankAndWorldSize) {
  const auto options = read({{"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node-a"},
                             {"MASTER_PORT", "1234"},
                             {"TANDEM_TOKEN", "secret"}});
  ASSERT_TRUE(options.ok()) << options.error().message();
  EXPECT_EQ((*options)->rank, 2);
  EXPECT_EQ((*options)->size, 4);
  EXPECT_EQ((*options)->address, "node-a");
  EXPECT_EQ((*options)->port, 1234);
  EXPECT_EQ((*options)->token, "secret");
  EXPECT_EQ((*options)->engine, "auto");
}

TEST(Launch, ReadsOpenMpiAndSlurm) {
  const auto mpi = read({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  ASSERT_TRUE(mpi.ok());
  EXPECT_EQ((*mpi)->rank, 1);
  EXPECT_EQ((*mpi)->engine, "mpi");
  const auto slurm = read({{"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "8"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_JOB_ID", "20007"},
                           {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
                           {"SLURM_STEP_NODELIST", "rack1-n[007-009,12]x,other"}});
  ASSERT_TRUE(slurm.ok());
  EXPECT_EQ((*slurm)->rank, 3);
  EXPECT_EQ((*slurm)->address, "rack1-n007x");
  EXPECT_EQ((*slurm)->port, 28007);
}

TEST(Launch, RefusesWhatIsNotWhole) {
  EXPECT_FALSE(read({{"RANK", "0"}}).ok());
  EXPECT_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(read({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(read({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).ok());
  EXPECT_FALSE(read({{"OMPI_COMM_WORLD_RANK", "1"}}).ok());
  EXPECT_TRUE(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).ok());
}

}  // namespace
}  // namespace tandem::collective
