#include "checkpoint/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::contains;
using testing::slurp;
using testing::spill;
using testing::TemporaryDirectory;

const std::vector<float> kWeights = {1, 2, 3}, kMomenta = {0.5F, 0.25F, 0};

Status write(const std::filesystem::path& store, std::int64_t step) {
  return write_checkpoint(store, step, {{{"w", {3}, kWeights}}, {}, {}},
                          {{{"optimizer.momentum", {3}, kMomenta}}, {}, {}});
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& store) {
  std::vector<std::int64_t> steps;
  const std::vector<Stored> all = list_checkpoints(store).value();
  for (const Stored& stored : all) steps.push_back(stored.step);
  return steps;
}

TEST(Store, ListsWhatWasWrittenByStep) {
  const TemporaryDirectory store;
  EXPECT_TRUE(steps_in(store / "not there").empty());
  for (const std::int64_t step : {200, 5, 1000, 5}) ASSERT_TRUE(write(store.path(), step).ok());
  EXPECT_EQ(steps_in(store.path()), (std::vector<std::int64_t>{5, 200, 1000}));
  const std::vector<Stored> all = list_checkpoints(store.path()).value();
  for (const Stored& stored : all) EXPECT_TRUE(verify_checkpoint(stored).ok());
}

TEST(Store, TakesTheNewestThatIsWhole) {
  const TemporaryDirectory store;
  EXPECT_EQ(choose_checkpoint(store.path(), std::nullopt).error().code(), Code::kNotFound);
  for (const std::int64_t step : {1, 2, 3, 4}) ASSERT_TRUE(write(store.path(), step).ok());
  const std::vector<Stored> all = list_checkpoints(store.path()).value();
  const auto file = [&](std::int64_t step, const char* name) {
    return all[static_cast<std::size_t>(step - 1)].path / name;
  };
  std::string bytes = slurp(file(4, "model.safetensors"));
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  spill(file(4, "model.safetensors"), bytes);
  std::filesystem::remove(file(3, "training.manifest.json"));
  const auto choice = choose_checkpoint(store.path(), std::nullopt);
  ASSERT_TRUE(choice.ok()) << choice.error().message();
  EXPECT_EQ(choice->stored.step, 2);
  ASSERT_EQ(choice->refused.size(), 2U);
  EXPECT_TRUE(contains(choice->refused[0], "step 4 is damaged")) << choice->refused[0];
  EXPECT_TRUE(contains(choice->refused[1], "step 3 is damaged")) << choice->refused[1];
  EXPECT_EQ(choose_checkpoint(store.path(), 1)->stored.step, 1);
  EXPECT_EQ(choose_checkpoint(store.path(), 3).error().code(), Code::kNotFound);
  EXPECT_EQ(choose_checkpoint(store.path(), 9).error().code(), Code::kNotFound);
}

// Any byte of any file, flipped, and any file cut short, is noticed.
TEST(Store, NoticesEveryFlippedByteAndEveryCut) {
  const TemporaryDirectory store;
  ASSERT_TRUE(write(store.path(), 1).ok());
  const Stored stored = list_checkpoints(store.path()).value()[0];
  for (const char* name : {"model.safetensors", "training.safetensors"}) {
    const std::string whole = slurp(stored.path / name);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
      spill(stored.path / name, bytes);
      EXPECT_FALSE(verify_checkpoint(stored).ok()) << name << " at " << at;
      spill(stored.path / name, whole.substr(0, at));
      EXPECT_FALSE(verify_checkpoint(stored).ok()) << name << " cut at " << at;
    }
    spill(stored.path / name, whole);
  }
  EXPECT_TRUE(verify_checkpoint(stored).ok());
}

TEST(Store, SweepsWhatWritersLeft) {
  const TemporaryDirectory store;
  ASSERT_TRUE(write(store.path(), 1).ok());
  std::filesystem::create_directory(store / ".unfinished-write-step-000000002-1");
  spill(store / ".unfinished-write-step-000000002-1/model.safetensors", "half");
  EXPECT_EQ(steps_in(store.path()), std::vector<std::int64_t>{1});
  ASSERT_TRUE(sweep_store(store.path()).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(store.path()), {}), 1);
}

// A worker may still write when its run goes back. What it writes may be swept away.
TEST(Store, SweepsBesideAWriter) {
  const TemporaryDirectory store;
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (std::int64_t step = 0; step < 30; ++step) (void)write(store.path(), step);
    done = true;
  });
  while (!done) {
    const Status swept = sweep_store(store.path());
    ASSERT_TRUE(swept.ok()) << swept.error().message();
  }
}

TEST(Store, KeepsTheNewestAndTheBest) {
  const std::vector<Stored> stored = {{5, ""}, {1, ""}, {3, ""}, {2, ""}, {4, ""}};
  const auto steps = [&](std::int64_t keep, std::optional<std::int64_t> best) {
    std::vector<std::int64_t> result;
    for (const Stored& each : superfluous(stored, keep, best)) result.push_back(each.step);
    return result;
  };
  EXPECT_EQ(steps(2, std::nullopt), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(steps(2, 2), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(steps(9, std::nullopt), (std::vector<std::int64_t>{}));
}

}  // namespace
}  // namespace tandem::checkpoint
