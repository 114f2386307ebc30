#include "cluster/run_directory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;

std::string next(const fs::path& parent, std::string_view name) {
  auto directory = RunDirectory::create_next(parent, name);
  EXPECT_TRUE(directory.ok());
  return directory.ok() ? directory->path().filename().string() : "";
}

TEST(RunDirectory, CountsOnFromTheHighestNumber) {
  const ScratchDirectory scratch;
  EXPECT_EQ(next(scratch.path() / "runs", "digits"), "digits-1");
  EXPECT_EQ(next(scratch.path() / "runs", "digits"), "digits-2");
  EXPECT_EQ(next(scratch.path() / "runs", "other"), "other-1");
  fs::create_directory(scratch.path() / "runs" / "digits-40");
  fs::create_directory(scratch.path() / "runs" / "digits-99x");
  fs::create_directory(scratch.path() / "runs" / "digits-more-7");
  EXPECT_EQ(next(scratch.path() / "runs", "digits"), "digits-41");
}

TEST(RunDirectory, HasCheckpoints) {
  const ScratchDirectory scratch;
  const auto directory = RunDirectory::create_next(scratch.path(), "x");
  ASSERT_TRUE(directory.ok());
  EXPECT_TRUE(fs::is_directory(directory->checkpoints()));
  EXPECT_EQ(directory->worker_log(0).filename(), "worker-0.log");
}

TEST(RunDirectory, NamesCannotLeaveTheParent) {
  const ScratchDirectory scratch;
  EXPECT_EQ(next(scratch.path(), "../../etc/passwd"), "-.-..-etc-passwd-1");
  EXPECT_EQ(next(scratch.path(), ""), "run-1");
}

TEST(RunDirectory, ConcurrentRunsGetDifferentOnes) {
  const ScratchDirectory scratch;
  std::vector<std::string> names(64);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 8; ++i) names[8 * t + i] = next(scratch.path(), "race");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(RunDirectory, OnlyOneOfManyGetsTheNamedOne) {
  const ScratchDirectory scratch;
  std::atomic<int> winners = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back(
        [&] { winners += RunDirectory::create_at(scratch.path() / "named").ok() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
}

TEST(RunDirectory, TakesAnEmptyDirectoryAndRefusesAnyOther) {
  const ScratchDirectory scratch;
  fs::create_directories(scratch.path() / "empty");
  EXPECT_TRUE(RunDirectory::create_at(scratch.path() / "empty").ok());
  EXPECT_TRUE(RunDirectory::create_at(scratch.path() / "a" / "b").ok());

  const auto again = RunDirectory::create_at(scratch.path() / "empty");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code(), Code::kInvalidArgument);
  EXPECT_NE(again.error().message().find("--out"), std::string::npos);

  std::ofstream(scratch.path() / "file") << "x";
  EXPECT_FALSE(RunDirectory::create_at(scratch.path() / "file").ok());
  EXPECT_FALSE(RunDirectory::create_at("").ok());
  EXPECT_EQ(content_of(scratch.path() / "file"), "x");
}

TEST(TemporaryRun, LeavesNothingBehind) {
  fs::path path;
  {
    const auto run = TemporaryRun::create();
    ASSERT_TRUE(run.ok());
    path = run->directory().path();
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path.parent_path()));
}

}  // namespace
}  // namespace tandem::cluster
