#include "job_source.h"

#include <gtest/gtest.h>

#include <filesystem>

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

TEST(JobSource, AMissingFileIsNotFoundAndNamed) {
  const auto job = load_job("no/such/job.toml", {});
  ASSERT_FALSE(job.ok());
  EXPECT_EQ(job.error().code(), Code::kNotFound);
  EXPECT_NE(job.error().message().find("no/such/job.toml"), std::string::npos);
}

}  // namespace
}  // namespace tandem::cli
