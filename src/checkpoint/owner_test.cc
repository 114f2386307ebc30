#include "checkpoint/owner.h"

#include <gtest/gtest.h>

#include "checkpoint/store.h"
#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::TemporaryDirectory;

TEST(Owner, OnlyTheLastOneIsIt) {
  const TemporaryDirectory run;
  EXPECT_TRUE(check_owner(run.path(), "a").ok());
  ASSERT_TRUE(set_owner(run.path(), "a").ok());
  EXPECT_TRUE(check_owner(run.path(), "a").ok());
  EXPECT_TRUE(check_owner(run.path(), "").ok());
  ASSERT_TRUE(set_owner(run.path(), "b").ok());
  EXPECT_EQ(check_owner(run.path(), "a").error().code(), Code::kDenied);
  EXPECT_TRUE(check_owner(run.path(), "b").ok());
}

TEST(Owner, WhoLosesItWhileWritingPublishesNothing) {
  const TemporaryDirectory run;
  const std::vector<float> weights = {1, 2, 3};
  const ModelContent content = {{{"w", {3}, weights}}, {}, {}};
  const auto publish = [&] { return check_owner(run.path(), "a"); };
  const std::filesystem::path store = run / "checkpoints";
  std::filesystem::create_directory(store);
  ASSERT_TRUE(set_owner(run.path(), "a").ok());
  ASSERT_TRUE(write_checkpoint(store, 1, content, content, publish).ok());
  // A writer that works there meanwhile.
  std::filesystem::create_directory(store / ".unfinished-write-other");
  ASSERT_TRUE(set_owner(run.path(), "b").ok());
  EXPECT_EQ(write_checkpoint(store, 1, content, content, publish).error().code(), Code::kDenied);
  EXPECT_EQ(write_checkpoint(store, 2, content, content, publish).error().code(), Code::kDenied);
  EXPECT_EQ(list_checkpoints(store).value().size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(store / ".unfinished-write-other"));
  // The directory changes hands while the files are written.
  int looks = 0;
  const auto lose = [&]() -> Status {
    if (++looks == 2) return Error(Code::kDenied, "lost");
    return {};
  };
  EXPECT_EQ(write_checkpoint(store, 3, content, content, lose).error().code(), Code::kDenied);
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(list_checkpoints(store).value().size(), 1U);
}

}  // namespace
}  // namespace tandem::checkpoint
