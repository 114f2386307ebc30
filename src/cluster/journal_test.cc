#include "cluster/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/file.h"
#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;

class Journal : public testing::Test {
 protected:
  Accepted accepted(const char* name, std::int64_t when) {
    Accepted made;
    made.directory = scratch.path() / name;
    made.base_directory = "/data";
    made.accepted_ns = when;
    fs::create_directory(made.directory);
    return made;
  }
  std::vector<Accepted> read() const {
    auto all = read_accepted(scratch.path());
    EXPECT_TRUE(all.ok());
    return *std::move(all);
  }
  static std::vector<std::string> files_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
      names.push_back(entry.path().filename().string());
    return names;
  }
  void write(const fs::path& path, std::string_view text) const {
    ASSERT_TRUE(write_file_atomic(path, text).ok());
  }

  ScratchDirectory scratch;
};

TEST_F(Journal, KeepsWhatWasAcceptedInItsOrderAndWhatWasChanged) {
  Accepted late = accepted("a-1", 200), early = accepted("b-1", 100);
  late.priority = 5;
  ASSERT_TRUE(write_accepted(late).ok());
  ASSERT_TRUE(write_accepted(early).ok());
  fs::create_directory(scratch.path() / "no job");
  late.workers = 3;
  late.servers = 2;
  ASSERT_TRUE(write_accepted(late).ok());
  const std::vector<Accepted> all = read();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].directory, early.directory);
  EXPECT_EQ(all[0].workers, std::nullopt);
  EXPECT_EQ(all[0].servers, std::nullopt);
  EXPECT_EQ(all[0].status, "");
  EXPECT_EQ(all[1].workers, 3);
  EXPECT_EQ(all[1].servers, 2);
  EXPECT_EQ(all[1].priority, 5);
  EXPECT_EQ(all[1].base_directory, "/data");
}

TEST_F(Journal, AnEndedJobKeepsItsNumbers) {
  const Accepted job = accepted("a-1", 1);
  ASSERT_TRUE(write_accepted(job).ok());
  write(job.directory / "metrics.jsonl",
        R"({"kind": "train", "step": 90, "loss": 0.5, "lr": 0.01})"
        "\n"
        R"({"kind": "train", "step": 100, "loss": 0.25, "lr": 0.02})"
        "\n"
        R"({"kind": "eval", "step": 100, "loss": 7})"
        "\n");
  write(job.directory / "report.json",
        R"({"status": "cancelled", "reason": "by the user", "steps": 101, "epochs": 2,
            "samples": 1000, "train_s": 0.5})");
  const std::vector<Accepted> all = read();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, "cancelled");
  EXPECT_EQ(all[0].reason, "by the user");
  EXPECT_EQ(all[0].progress.step(), 101);
  EXPECT_EQ(all[0].progress.epoch(), 2);
  EXPECT_EQ(all[0].progress.samples(), 1000);
  EXPECT_EQ(all[0].progress.loss(), 0.25);
  EXPECT_EQ(all[0].progress.lr(), 0.02);
}

TEST_F(Journal, AJobWhoseReportCouldNotBeWrittenHasEndedAllTheSame) {
  const Accepted job = accepted("a-1", 1);
  ASSERT_TRUE(write_accepted(job).ok());
  ASSERT_TRUE(rename_accepted(job.directory, "finished").ok());
  EXPECT_EQ(read().at(0).status, "finished");
  ASSERT_TRUE(rename_accepted(job.directory, "failed").ok());
  EXPECT_EQ(read().at(0).status, "failed");
  ASSERT_TRUE(rename_accepted(job.directory, "").ok());
  EXPECT_EQ(read().at(0).status, "");
  EXPECT_EQ(read().at(0).accepted_ns, 1);
}

TEST_F(Journal, AJobThatIsResizedBeforeItGoesOnHasOneSubmission) {
  Accepted job = accepted("a-1", 1);
  ASSERT_TRUE(write_accepted(job).ok());
  ASSERT_TRUE(rename_accepted(job.directory, "cancelled").ok());
  job.workers = 3;
  ASSERT_TRUE(write_accepted(job).ok());
  EXPECT_EQ(files_in(job.directory), std::vector<std::string>{"submission-cancelled.json"});
  EXPECT_EQ(read().at(0).status, "cancelled");
  ASSERT_TRUE(rename_accepted(job.directory, "").ok());
  EXPECT_EQ(files_in(job.directory), std::vector<std::string>{"submission.json"});
  EXPECT_EQ(read().at(0).status, "");
  EXPECT_EQ(read().at(0).workers, 3);
}

TEST_F(Journal, AJobThatDoesNotFitOnTheDiskLeavesNothing) {
  const fs::path runs = scratch.path() / "runs";
  ASSERT_TRUE(accept(runs, "a", "name = \"a\"\n", "/data", 0).ok());
  // A limit on the size of files stands for the full disk.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{32, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto second = accept(runs, "a", "name = \"a\"\n", "/data", 0);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kOutOfSpace);
  EXPECT_FALSE(fs::exists(runs / "a-2"));
  const auto all = read_accepted(runs);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 1U);
}

TEST_F(Journal, DamagedFilesAreNoReasonToFail) {
  const Accepted job = accepted("a-1", 1);
  ASSERT_TRUE(write_accepted(job).ok());
  write(job.directory / "metrics.jsonl", "\xff\n[]\n{\"kind\": 3}\n");
  write(job.directory / "report.json", R"({"status": 1, "steps": "x", "reason": []})");
  fs::create_directory(scratch.path() / "b-1");
  write(scratch.path() / "b-1" / "submission.json", "{");
  const std::vector<Accepted> all = read();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].status, "failed");
  EXPECT_EQ(all[0].progress.step(), 0);
}

}  // namespace
}  // namespace tandem::cluster
