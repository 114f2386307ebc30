#include "job/reference.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "job/parse.h"

namespace tandem::job {
namespace {

TEST(Reference, TheDocumentIsWhatTheSchemaSays) {
  std::ifstream file("docs/job-file.md", std::ios::binary);
  const std::string document((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(document == reference_markdown())
      << "docs/job-file.md differs from the schema. Make it again with\n"
         "  build/bin/tandem job-reference > docs/job-file.md\nIt should read:\n"
      << reference_markdown();
}

TEST(Reference, ItsExamplesAreValidJobs) {
  const std::string text = reference_markdown();
  int examples = 0;
  for (std::size_t at = 0; (at = text.find("```toml\n", at)) != std::string::npos; ++examples) {
    at += 8;
    const std::size_t end = text.find("```", at);
    const Result<Job> job = parse(text.substr(at, end - at), "example.toml", {});
    EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message());
    at = end;
  }
  EXPECT_EQ(examples, 3);
}

}  // namespace
}  // namespace tandem::job
