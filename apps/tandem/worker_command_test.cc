#include "worker_command.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class WorkerCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tandem-cli-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    scratch = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(scratch, ignored);
  }
  std::string warning() const {
    testing::internal::CaptureStderr();
    warn_if_unchecked(scratch / "model.safetensors", Surroundings());
    return testing::internal::GetCapturedStderr();
  }

  fs::path scratch;
};

TEST_F(WorkerCommand, WarnsOfAModelWithoutAManifest) {
  EXPECT_NE(warning().find("no manifest beside it (model.manifest.json): not checked for damage"),
            std::string::npos);
  std::ofstream(scratch / "model.manifest.json") << "{}";
  EXPECT_EQ(warning(), "");
}

TEST_F(WorkerCommand, FindsAModelAndWhatItsRunRecorded) {
  EXPECT_EQ(find_model(scratch.string(), {}).error().code(), Code::kNotFound);
  std::ofstream(scratch / "model.safetensors") << "x";
  std::ofstream(scratch / "report.json") << R"({"base_directory": "/elsewhere"})";
  const auto place = find_model(scratch.string(), {});
  ASSERT_TRUE(place.ok()) << place.error().message();
  EXPECT_EQ(place->file, scratch / "model.safetensors");
  EXPECT_EQ(place->base_directory, "/elsewhere");
  EXPECT_EQ(place->threads, 1);
}

}  // namespace
}  // namespace tandem::cli
