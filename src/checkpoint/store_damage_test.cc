// Every state of the disk that a writer, or something that damages its work, can leave: files cut
// at any length, files missing, and the same in directories that never got their name.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "checkpoint/store.h"
#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::slurp;
using testing::spill;
using testing::TemporaryDirectory;

// In the order in which they are written.
constexpr std::array kFiles = {"model.safetensors", "model.manifest.json", "training.safetensors",
                               "training.manifest.json"};

Status write(const fs::path& store, std::int64_t step) {
  const std::vector<float> numbers(40, static_cast<float>(step));
  return write_checkpoint(store, step, {{{"w", {4, 10}, numbers}}, {}, {}},
                          {{{"optimizer.momentum", {40}, numbers}}, {}, {}});
}

class StoreDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(write(store_.path(), step).ok());
    newest_ = list_checkpoints(store_.path()).value().back().path;
    for (const char* name : kFiles) whole_.push_back(slurp(newest_ / name));
  }

  // Lengths of a file that lack something. The newline at the end of a manifest is nothing.
  std::size_t lengths(std::size_t file) const {
    return whole_[file].size() - (contains(kFiles[file], "manifest") ? 1 : 0);
  }

  // Calls with the file of that number cut at each length.
  void each_cut(const fs::path& directory, std::size_t file, const std::function<void()>& check) {
    for (std::size_t length = 0; length < lengths(file); ++length) {
      SCOPED_TRACE(std::string(kFiles[file]) + " of length " + std::to_string(length));
      spill(directory / kFiles[file], std::string_view(whole_[file]).substr(0, length));
      check();
      if (HasFailure()) return;
    }
    spill(directory / kFiles[file], whole_[file]);
  }

  void expect_damage_named(std::string_view file) {
    const Result<Choice> choice = choose_checkpoint(store_.path(), std::nullopt);
    ASSERT_TRUE(choice.ok()) << choice.error().message();
    EXPECT_EQ(choice->stored.step, 2);
    ASSERT_EQ(choice->refused.size(), 1U);
    EXPECT_TRUE(contains(choice->refused[0], "step 3 is damaged")) << choice->refused[0];
    EXPECT_TRUE(contains(choice->refused[0], file)) << choice->refused[0];
  }

  void expect_nothing_refused() {
    const Result<Choice> choice = choose_checkpoint(store_.path(), std::nullopt);
    ASSERT_TRUE(choice.ok()) << choice.error().message();
    EXPECT_EQ(choice->stored.step, 2);
    EXPECT_EQ(choice->refused.size(), 0U);
  }

  // That the next writer leaves nothing but checkpoints.
  void expect_next_writer_cleans_up() {
    ASSERT_TRUE(write(store_.path(), 2).ok());
    for (const fs::directory_entry& entry : fs::directory_iterator(store_.path()))
      EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
  }

  const TemporaryDirectory store_;
  fs::path newest_;
  std::vector<std::string> whole_;
};

TEST_F(StoreDamage, IsNamedWhereverAFileWasCut) {
  for (std::size_t file = 0; file < kFiles.size(); ++file) {
    // A manifest does not know of itself what it lacks; either name leads to it.
    const std::string stem = fs::path(kFiles[file]).stem().stem().string();
    each_cut(newest_, file, [&] { expect_damage_named(stem + "."); });
  }
  EXPECT_EQ(choose_checkpoint(store_.path(), std::nullopt)->stored.step, 3);
}

TEST_F(StoreDamage, IsNamedWhicheverFilesAreMissing) {
  for (unsigned missing = 1; missing < 1U << kFiles.size(); ++missing) {
    SCOPED_TRACE(missing);
    for (std::size_t file = 0; file < kFiles.size(); ++file) {
      if ((missing >> file & 1U) != 0) fs::remove(newest_ / kFiles[file]);
    }
    expect_damage_named((missing & 3U) != 0 ? "model." : "training.");
    for (std::size_t file = 0; file < kFiles.size(); ++file)
      spill(newest_ / kFiles[file], whole_[file]);
  }
  EXPECT_EQ(choose_checkpoint(store_.path(), std::nullopt)->stored.step, 3);
}

// Passing over it would let a resume drop it.
TEST_F(StoreDamage, IsNotWhatANewerTandemHasWritten) {
  std::string newer = whole_[1];
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 2");
  spill(newest_ / kFiles[1], newer);
  const Result<Choice> choice = choose_checkpoint(store_.path(), std::nullopt);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().code(), Code::kVersionMismatch);
  EXPECT_TRUE(contains(choice.error().message(), "the checkpoint of step 3 cannot be read"))
      << choice.error().message();
  EXPECT_TRUE(contains(choice.error().message(), "use the Tandem that wrote it"))
      << choice.error().message();
  EXPECT_EQ(choose_checkpoint(store_.path(), 2)->stored.step, 2);
}

TEST_F(StoreDamage, OfEveryOneLeavesNoneToGoOnFromAndNamesThemAll) {
  const std::vector<Stored> all = list_checkpoints(store_.path()).value();
  for (const Stored& stored : all) spill(stored.path / "training.safetensors", "");
  const Result<Choice> choice = choose_checkpoint(store_.path(), std::nullopt);
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().code(), Code::kNotFound);
  for (const char* step : {"step 1 is damaged", "step 2 is damaged", "step 3 is damaged"})
    EXPECT_TRUE(contains(choice.error().message(), step)) << choice.error().message();
}

TEST_F(StoreDamage, OfWhatHasNoNameYetIsNoneAndTheNextWriterRemovesIt) {
  const fs::path unfinished = store_ / ".unfinished-write-step-000000003-1";
  fs::rename(newest_, unfinished);
  // All of it is there, and only the last rename is missing.
  expect_nothing_refused();
  expect_next_writer_cleans_up();

  // As a writer goes on: an empty directory, then file after file, each under another name first.
  fs::create_directory(unfinished);
  expect_nothing_refused();
  for (std::size_t file = 0; file < kFiles.size(); ++file) {
    const std::string temporary = std::string(kFiles[file]) + ".tmp-1-0";
    for (std::size_t length = 0; length <= whole_[file].size(); ++length) {
      spill(unfinished / temporary, std::string_view(whole_[file]).substr(0, length));
      expect_nothing_refused();
    }
    const TemporaryDirectory elsewhere;
    fs::copy(unfinished, elsewhere / "copy");
    expect_next_writer_cleans_up();
    fs::copy(elsewhere / "copy", unfinished);
    fs::rename(unfinished / temporary, unfinished / kFiles[file]);
  }
}

}  // namespace
}  // namespace tandem::checkpoint
