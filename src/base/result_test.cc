#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace tandem {
namespace {

constexpr Code kAllCodes[] = {
    Code::kPeerLost, Code::kTimeout,   Code::kCorrupt,    Code::kVersionMismatch,
    Code::kDenied,   Code::kNotFound,  Code::kOutOfSpace, Code::kInvalidArgument,
    Code::kDiverged, Code::kCancelled, Code::kInternal,
};

Result<int> half(int number) {
  if (number % 2 != 0) return Error(Code::kInvalidArgument, "odd");
  return number / 2;
}

Status must_be_even(int number) {
  TANDEM_TRY(half(number));
  return {};
}

Result<int> quarter(int number) {
  TANDEM_ASSIGN(const int once, half(number));
  TANDEM_ASSIGN(const int twice, half(once));
  return twice;
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(bad.error().message(), "odd");
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 5);
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_TRUE(must_be_even(2).ok());
  EXPECT_EQ(must_be_even(3).error().message(), "odd");
}

TEST(Result, AssignUnwrapsOrReturnsTheError) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_FALSE(quarter(6).ok());
  EXPECT_FALSE(quarter(5).ok());
}

TEST(Result, ErrorsReadOutermostFirst) {
  const Error error =
      Error(Code::kPeerLost, "connection reset").within("receive").within("step 812");
  EXPECT_EQ(error.message(), "step 812: receive: connection reset");
  EXPECT_EQ(error.code(), Code::kPeerLost);
}

TEST(Result, EveryCodeHasItsOwnNameAndExitCode) {
  std::set<std::string_view> names;
  std::set<int> exits;
  for (Code code : kAllCodes) {
    names.insert(to_string(code));
    exits.insert(exit_code(code));
    EXPECT_GT(exit_code(code), 1) << to_string(code);
    EXPECT_LT(exit_code(code), 256) << to_string(code);
  }
  EXPECT_EQ(names.size(), std::size(kAllCodes));
  EXPECT_EQ(exits.size(), std::size(kAllCodes));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Result, SystemErrorsGetACodeAndTheSystemsText) {
  EXPECT_EQ(system_error("open x", ENOENT).message(), "open x: No such file or directory");
  EXPECT_EQ(system_error("", ENOENT).code(), Code::kNotFound);
  EXPECT_EQ(system_error("", EACCES).code(), Code::kDenied);
  EXPECT_EQ(system_error("", ENOSPC).code(), Code::kOutOfSpace);
  EXPECT_EQ(system_error("", EPIPE).code(), Code::kPeerLost);
  EXPECT_EQ(system_error("", ETIMEDOUT).code(), Code::kTimeout);
  EXPECT_EQ(system_error("", EISDIR).code(), Code::kInvalidArgument);
  EXPECT_EQ(system_error("", EIO).code(), Code::kInternal);
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorIsABug) {
  EXPECT_DEATH(static_cast<void>(half(7).value()), "check failed");
  EXPECT_DEATH(static_cast<void>(half(8).error()), "check failed");
  EXPECT_DEATH(static_cast<void>(Status().error()), "check failed");
}

}  // namespace
}  // namespace tandem
