#include "checkpoint/safetensors_writer.h"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::bytes_of;
using testing::contains;
using testing::slurp;
using testing::TemporaryDirectory;

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TemporaryDirectory directory;
  const std::vector<float> first = {1, 2, 3, 4, 5, 6};
  const std::vector<float> second = {-0.5F};
  const std::vector<TensorView> tensors = {
      {"z.weight", {2, 3}, first}, {"a \"quoted\" é", {}, second}, {"none", {0, 7}, {}}};
  const Metadata metadata = {{"b", "2"}, {"a", "line\nbreak"}};
  ASSERT_TRUE(write_safetensors(directory / "x", tensors, metadata).ok());

  const std::string bytes = slurp(directory / "x");
  const auto file = parse_safetensors(bytes_of(bytes), "x");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ((bytes.size() - file->data.size()) % 8, 0U);
  EXPECT_EQ(file->metadata, metadata);
  ASSERT_EQ(file->tensors.size(), 3U);
  EXPECT_EQ(file->tensors[0].name, "z.weight");
  EXPECT_EQ(read_floats(*file, file->tensors[0]).value(), first);
  EXPECT_EQ(file->tensors[1].name, "a \"quoted\" é");
  EXPECT_EQ(read_floats(*file, file->tensors[1]).value(), second);
  EXPECT_EQ(file->tensors[2].shape, (Shape{0, 7}));
}

TEST(SafetensorsWriter, HasTheseBytes) {
  const std::vector<float> values = {1};
  const auto prefix = safetensors_prefix(std::vector<TensorView>{{"w", {1}, values}}, {{"k", "v"}});
  ASSERT_TRUE(prefix.ok());
  const std::string header =
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(*prefix, std::string(1, static_cast<char>(padded)) + std::string(7, '\0') + header +
                         std::string(padded - header.size(), ' '));
}

TEST(SafetensorsWriter, RefusesWhatCannotBeRead) {
  const std::vector<float> values = {1, 2};
  const std::pair<std::vector<TensorView>, std::string> wrong[] = {
      {{{"w", {2}, values}, {"w", {2}, values}}, "two tensors"},
      {{{"w", {3}, values}}, "2 values"},
      {{{"w", {-2}, values}}, "2 values"},
      {{{"w", Shape(33, 1), std::span(values).first(1)}}, "32 dimensions"},
      {{{"__metadata__", {2}, values}}, "__metadata__"},
      {{{"\xff", {2}, values}}, "UTF-8"},
  };
  for (const auto& [tensors, what] : wrong) {
    const auto prefix = safetensors_prefix(tensors, {});
    ASSERT_FALSE(prefix.ok()) << what;
    EXPECT_EQ(prefix.error().code(), Code::kInvalidArgument);
    EXPECT_TRUE(contains(prefix.error().message(), what)) << prefix.error().message();
  }
}

TEST(SafetensorsWriter, ReportsAPathThatCannotBeWritten) {
  EXPECT_FALSE(write_safetensors("/nowhere/at/all/x", {}, {}).ok());
}

}  // namespace
}  // namespace tandem::checkpoint
