#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"
#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::bytes_of;
using testing::contains;
using testing::safetensors_bytes;

const std::string kGood = R"({"__metadata__":{"format":"pt","note":"é"},)"
                          R"("b":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},)"
                          R"("a":{"shape":[2,2],"dtype":"F32","data_offsets":[0,16]},)"
                          R"("empty":{"dtype":"F32","shape":[0,5],"data_offsets":[16,16]},)"
                          R"("count":{"dtype":"I64","shape":[],"data_offsets":[20,28]}}   )";

// REQUIRES: the bytes are refused.
Error error_of(const std::string& bytes) {
  const auto parsed = parse_safetensors(bytes_of(bytes), "x.safetensors");
  EXPECT_FALSE(parsed.ok()) << bytes;
  if (parsed.ok()) return Error(Code::kInternal, "accepted");
  EXPECT_TRUE(parsed.error().message().starts_with("x.safetensors: ")) << parsed.error().message();
  return parsed.error();
}

std::string one(const std::string& fields) {
  return R"({"w":{)" + fields + "}}";
}

TEST(Safetensors, ReadsEveryTensorInDataOrder) {
  const std::string bytes = safetensors_bytes(kGood, 28);
  const auto file = parse_safetensors(bytes_of(bytes), "x");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->metadata, (Metadata{{"format", "pt"}, {"note", "é"}}));
  ASSERT_EQ(file->tensors.size(), 4U);
  EXPECT_EQ(file->tensors[0].name, "a");
  EXPECT_EQ(file->tensors[0].shape, (Shape{2, 2}));
  EXPECT_EQ(file->tensors[1].name, "empty");
  EXPECT_EQ(file->tensors[2].name, "b");
  EXPECT_EQ(file->tensors[3].shape, Shape{});
  EXPECT_EQ(read_floats(*file, file->tensors[0]).value().size(), 4U);
  EXPECT_EQ(read_floats(*file, file->tensors[1]).value().size(), 0U);
  EXPECT_EQ(read_floats(*file, file->tensors[2]).value().size(), 2U);
  const auto integers = read_floats(*file, file->tensors[3]);
  ASSERT_FALSE(integers.ok());
  EXPECT_TRUE(contains(integers.error().message(), "\"count\"")) << integers.error().message();
  EXPECT_TRUE(contains(integers.error().message(), "I64"));
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  const std::string bytes = safetensors_bytes("{}", 0);
  const auto file = parse_safetensors(bytes_of(bytes), "x");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->tensors.empty());
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string bytes = safetensors_bytes(kGood, 28);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of(bytes.substr(0, size)).code(), Code::kCorrupt);
  }
  EXPECT_EQ(error_of(bytes + "x").code(), Code::kCorrupt);
}

TEST(Safetensors, SurvivesEveryFlippedBit) {
  const std::string good = safetensors_bytes(kGood, 28);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto file = parse_safetensors(bytes_of(bad), "x");
    if (!file.ok()) continue;
    for (const TensorEntry& entry : file->tensors) {
      EXPECT_EQ(read_floats(*file, entry).ok(), is_float(entry.dtype));
    }
  }
}

TEST(Safetensors, RefusesAHugeDeclaredHeader) {
  std::string bytes = safetensors_bytes("{}", 100);
  bytes.replace(0, 8, std::string(8, '\xff'));
  EXPECT_TRUE(contains(error_of(bytes).message(), "18446744073709551615"));
  bytes.replace(0, 8, std::string("\x00\xe1\xf5\x05\x00\x00\x00\x00", 8));  // 100,000,000
  EXPECT_TRUE(contains(error_of(bytes).message(), "truncated"));
}

TEST(Safetensors, RefusesHeadersThatAreNoHeaders) {
  for (const std::string header : {"",
                                   "[]",
                                   " {}",
                                   "{",
                                   "{}}",
                                   "{\"w\"}",
                                   "{\"w\":1}",
                                   "{\"w\":null}",
                                   "{\"w\":[]}",
                                   "{\"w\":\"F32\"}",
                                   "{\"w\":true}",
                                   "{\"w\":{}}",
                                   "{\"__metadata__\":1}",
                                   "{\"__metadata__\":{\"k\":1}}",
                                   "{\"__metadata__\":{\"k\":{}}}",
                                   "{\"__metadata__\":{\"k\":[\"v\"]}}",
                                   "{\"__metadata__\":{\"k\":\"v\",\"k\":\"v\"}}",
                                   "{\"__metadata__\":{},\"__metadata__\":{}}",
                                   "{\"\xff\":{}}",
                                   "{\"w\":1e999}"}) {
    EXPECT_EQ(error_of(safetensors_bytes(header, 0)).code(), Code::kCorrupt) << header;
  }
}

TEST(Safetensors, NamesTheTensorThatIsWrong) {
  const std::pair<std::string, std::string> wrong[] = {
      {R"("dtype":"F32","shape":[1])", "missing"},
      {R"("dtype":"F32","data_offsets":[0,4])", "missing"},
      {R"("shape":[1],"data_offsets":[0,4])", "missing"},
      {R"("dtype":"F32","dtype":"F32")", "twice"},
      {R"("dtype":7)", "number"},
      {R"("dtype":["F32"])", "list"},
      {R"("shape":4)", "number"},
      {R"("shape":[[4]])", "list"},
      {R"("shape":["4"])", "text"},
      {R"("shape":[{}])", "object"},
      {R"("shape":[1.5])", "whole number"},
      {R"("shape":[-1])", "negative"},
      {R"("shape":[9223372036854775808])", "too large"},
      {R"("shape":[99999999999999999999999])", "whole number"},
      {R"("color":"red")", "color"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0])", "two numbers"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])", "two numbers"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "does not fill"},
      {R"("dtype":"F64","shape":[1],"data_offsets":[0,4])", "does not fill"},
      {R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", "before its begin"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", "truncated"},
      {R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4])", "does not fill"},
      {R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", "64 bits"},
      {R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,4])", "does not fill"},
  };
  for (const auto& [fields, what] : wrong) {
    const Error error = error_of(safetensors_bytes(one(fields), 4));
    EXPECT_EQ(error.code(), Code::kCorrupt) << fields;
    EXPECT_TRUE(contains(error.message(), "tensor \"w\"")) << error.message();
    EXPECT_TRUE(contains(error.message(), what)) << error.message();
  }
}

TEST(Safetensors, RefusesAnUnknownElementType) {
  const Error error =
      error_of(safetensors_bytes(one(R"("dtype":"F4","shape":[1],"data_offsets":[0,4])"), 4));
  EXPECT_EQ(error.code(), Code::kVersionMismatch);
  EXPECT_TRUE(contains(error.message(), "F4"));
}

TEST(Safetensors, RefusesHolesOverlapsAndDoubleNames) {
  const auto two = [](const std::string& name, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},")" + name +
           R"(":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets + "}}";
  };
  EXPECT_TRUE(contains(error_of(safetensors_bytes(two("b", "[8,12]"), 12)).message(), "hole"));
  EXPECT_TRUE(contains(error_of(safetensors_bytes(two("b", "[2,6]"), 6)).message(), "inside"));
  EXPECT_TRUE(contains(error_of(safetensors_bytes(two("b", "[0,4]"), 4)).message(), "inside"));
  EXPECT_TRUE(
      contains(error_of(safetensors_bytes(two("b", "[4,8]"), 9)).message(), "belong to none"));
  EXPECT_TRUE(contains(error_of(safetensors_bytes(two("a", "[4,8]"), 8)).message(), "twice"));
}

TEST(Safetensors, RefusesDeepNestingAndManyDimensions) {
  EXPECT_EQ(error_of(safetensors_bytes("{\"w\":" + std::string(1 << 20, '['), 0)).code(),
            Code::kCorrupt);
  std::string shape = "1";
  for (int i = 0; i < 40; ++i) shape += ",1";
  EXPECT_TRUE(contains(error_of(safetensors_bytes(one("\"shape\":[" + shape + "]"), 0)).message(),
                       "more than 32"));
}

}  // namespace
}  // namespace tandem::checkpoint
