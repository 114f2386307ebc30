#include "job_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tandem::cli {
namespace {

TEST(JobSource, PathsOfOverridesAreTakenFromTheCurrentDirectory) {
  const std::string here = std::filesystem::current_path().string();
  const std::vector<std::string> overrides = {
      "data.path=a.csv", "data.path=/a.csv", "data.path=\"a.csv\"",
      "data.test_path=", "name=a.csv",       "nonsense"};
  EXPECT_EQ(with_absolute_paths(overrides),
            (std::vector<std::string>{"data.path=" + here + "/a.csv", "data.path=/a.csv",
                                      "data.path=\"a.csv\"", "data.test_path=", "name=a.csv",
                                      "nonsense"}));
}

TEST(JobSource, LaterMistakesPointAtTheOverrideAsItWasTyped) {
  const std::string path = testing::TempDir() + "tandem-job-source-test.toml";
  std::ofstream(path)
      << "[model]\nkind = \"softmax\"\n[data]\nsource = \"csv\"\npath = \"a.csv\"\n";
  const std::vector<std::string> overrides = {"data.path=b.csv"};
  const auto loaded = load_job(path, overrides);
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_TRUE(std::filesystem::path(loaded->parsed.job.data.path).is_absolute());
  const std::string message = job::point_at(loaded->parsed, "data.path", "it is empty", "");
  EXPECT_NE(message.find("| data.path=b.csv\n"), std::string::npos) << message;
  EXPECT_EQ(message.find(std::filesystem::current_path().string()), std::string::npos) << message;
  const std::string in_file = job::point_at(loaded->parsed, "model.kind", "unfit", "");
  EXPECT_NE(in_file.find(path + ":2:8"), std::string::npos) << in_file;
}

TEST(JobSource, AMissingFileIsNotFoundAndNamed) {
  const auto job = load_job("no/such/job.toml", {});
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.error().code(), Code::kNotFound);
  EXPECT_NE(job.error().message().find("no/such/job.toml"), std::string::npos);
}

}  // namespace
}  // namespace tandem::cli
