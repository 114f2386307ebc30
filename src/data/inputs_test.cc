#include "data/inputs.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/json.h"
#include "data/source.h"
#include "data/testing.h"

namespace tandem::data {
namespace {

Spec image_spec() {
  Spec spec;
  spec.shape = {1, 2, 2};
  spec.classes = 2;
  spec.class_names = {"0", "1"};
  return spec;
}

Encoding image_encoding() {
  Encoding encoding;
  encoding.normalisation = {{1}, {2}};
  return encoding;
}

Encoding table_encoding() {
  Encoding encoding;
  encoding.columns = {{"age", {}}, {"city", {"bonn", "oslo"}}};
  encoding.normalisation = {{10, 0, 0}, {0.5F, 1, 1}};
  encoding.label_name = "kind";
  encoding.label_column = 1;
  return encoding;
}

Spec table_spec() {
  Spec spec = image_spec();
  spec.shape = {3};
  return spec;
}

class Inputs : public testing::Test {
 protected:
  // All inputs of the file; empty, with a failure, when it cannot be read.
  std::vector<float> read(std::string_view content, const Spec& spec, const Encoding& encoding) {
    const auto set = read_inputs(directory.write("input", content), spec, encoding);
    EXPECT_TRUE(set.ok()) << set.error().message();
    if (!set.ok()) return {};
    std::vector<std::uint32_t> indices(static_cast<std::size_t>((*set)->size()));
    std::iota(indices.begin(), indices.end(), 0U);
    Batch batch;
    (*set)->gather(indices, batch);
    EXPECT_TRUE(batch.classes.empty() && batch.values.empty());
    return batch.inputs;
  }

  auto failing(std::string_view content, const Spec& spec, const Encoding& encoding) {
    return read_inputs(directory.write("input", content), spec, encoding);
  }

  TemporaryDirectory directory;
};

TEST_F(Inputs, ReadArraysOfEveryFormat) {
  const std::vector<float> expected = {0, 2, 4, 6, -2, -2, -2, -2};
  const std::string bytes = {1, 2, 3, 4, 0, 0, 0, 0};
  const std::string idx = idx_bytes(8, {2, 2, 2}, bytes);
  EXPECT_EQ(read(idx, image_spec(), image_encoding()), expected);
  EXPECT_EQ(read(gzip_bytes(idx), image_spec(), image_encoding()), expected);
  EXPECT_EQ(read(npy_bytes("|u1", {2, 1, 2, 2}, bytes), image_spec(), image_encoding()), expected);
  EXPECT_EQ(read(npy_bytes("|u1", {2, 4}, bytes), image_spec(), image_encoding()), expected);
  EXPECT_EQ(read(npy_bytes("<f4", {2, 2, 2}, raw<float>({1, 2, 3, 4, 0, 0, 0, 0})), image_spec(),
                 image_encoding()),
            expected);
  EXPECT_EQ(read("1,2,3,4\n0,0,0,0\n", image_spec(), image_encoding()), expected);
}

TEST_F(Inputs, ReadASingleSample) {
  const std::vector<float> expected = {0, 2, 4, 6};
  EXPECT_EQ(read(npy_bytes("|u1", {2, 2}, "\x01\x02\x03\x04"), image_spec(), image_encoding()),
            expected);
  EXPECT_EQ(read(npy_bytes("|u1", {4}, "\x01\x02\x03\x04"), image_spec(), image_encoding()),
            expected);
  EXPECT_EQ(read(npy_bytes("|u1", {1, 2, 2}, "\x01\x02\x03\x04"), image_spec(), image_encoding()),
            expected);
}

TEST_F(Inputs, ReadTablesWithAndWithoutHeaderAndLabel) {
  const std::vector<float> expected = {1, 0, 1, -5, 0, 0};
  EXPECT_EQ(read("age,city\n12,oslo\n0,rome\n", table_spec(), table_encoding()), expected);
  EXPECT_EQ(read("id,city,kind,age\n7,oslo,x,12\n8,rome,x,0\n", table_spec(), table_encoding()),
            expected);
  EXPECT_EQ(read("12,oslo\n0,rome\n", table_spec(), table_encoding()), expected);
  EXPECT_EQ(read("12,x,oslo\n0,y,rome\n", table_spec(), table_encoding()), expected);
}

TEST_F(Inputs, ReadOneRowOfCategories) {
  Encoding encoding;
  encoding.columns = {{"", {"blue", "red"}}};
  encoding.normalisation = {{0, 0}, {1, 1}};
  Spec spec = image_spec();
  spec.shape = {2};
  EXPECT_EQ(read("red\n", spec, encoding), (std::vector<float>{0, 1}));
  encoding.columns[0].name = "colour";
  EXPECT_EQ(read("red\n", spec, encoding), (std::vector<float>{0, 1}));
  EXPECT_EQ(read("colour\nred\n", spec, encoding), (std::vector<float>{0, 1}));
}

TEST_F(Inputs, AreReadByTheEmbeddedDigitsModel) {
  const auto digits = load(SourceConfig(), ".");
  std::string row = "0";
  for (int i = 1; i < 64; ++i) row += ",16";
  EXPECT_EQ(read(row + "\n", digits->spec, digits->encoding),
            read(row + ",7\n", digits->spec, digits->encoding));
}

TEST_F(Inputs, SayWhatIsWrong) {
  EXPECT_TRUE(fails(failing(idx_bytes(8, {1, 3, 3}, "123456789"), image_spec(), image_encoding()),
                    Code::kInvalidArgument, "an array 1x3x3 does not hold samples of 1x2x2"));
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {2, 1, 4}, {2, 4, 1}, {2, 1, 1, 4}, {2, 4, 1, 1}, {1, 4, 1}, {4, 1}}) {
    const std::string bytes(shape[0] == 2 ? 8 : 4, 'x');
    EXPECT_TRUE(fails(failing(npy_bytes("|u1", shape, bytes), image_spec(), image_encoding()),
                      Code::kInvalidArgument, "does not hold samples of 1x2x2"))
        << fmt::format("{}", shape);
  }
  EXPECT_TRUE(fails(failing("1,2,3\n", image_spec(), image_encoding()), Code::kInvalidArgument,
                    "the file has 3 columns; the model was trained on 4"));
  EXPECT_TRUE(fails(failing("age,town\n1,oslo\n", table_spec(), table_encoding()),
                    Code::kInvalidArgument,
                    "no column `city`, on which the model was trained; the columns are age, town"));
  EXPECT_TRUE(fails(failing("age,city\nold,oslo\n", table_spec(), table_encoding()),
                    Code::kInvalidArgument, "line 2, column `age`: `old`"));
  EXPECT_TRUE(fails(read_inputs(directory.path() / "none", image_spec(), image_encoding()),
                    Code::kNotFound, "none"));
  EXPECT_TRUE(fails(read_inputs(directory.write("x.npy", "1,2"), image_spec(), image_encoding()),
                    Code::kCorrupt, "not an npy file"));
  EXPECT_TRUE(
      fails(failing("1,2,3,4\n", image_spec(), table_encoding()), Code::kCorrupt, "does not fit"));
}

TEST(Prompt, BecomesTokens) {
  Spec spec;
  spec.input = Input::kTokens;
  spec.class_names = {"a", "b", "é"};
  EXPECT_EQ(*encode_prompt("éa", spec), (std::vector<std::int32_t>{2, 0}));
  EXPECT_TRUE(
      fails(encode_prompt("az", spec), Code::kInvalidArgument, "prompt: the character `z`"));
  EXPECT_TRUE(fails(encode_prompt("a\xff", spec), Code::kInvalidArgument,
                    "the prompt is not UTF-8 at byte 1"));
}

TEST(Json, GivesBackWhatWasWritten) {
  EXPECT_EQ(*encoding_from_json(to_json(table_encoding())), table_encoding());
  EXPECT_EQ(*encoding_from_json(to_json(Encoding())), Encoding());
  EXPECT_EQ(*spec_from_json(to_json(image_spec())), image_spec());
  const auto digits = load(SourceConfig(), ".");
  EXPECT_EQ(*encoding_from_json(to_json(digits->encoding)), digits->encoding);
  EXPECT_EQ(*spec_from_json(to_json(digits->spec)), digits->spec);
}

TEST(Json, RefusesWhatNoDataSetCouldGive) {
  const auto encoding = [](std::string_view text) { return encoding_from_json(text); };
  EXPECT_TRUE(fails(encoding("{"), Code::kCorrupt, "not JSON"));
  EXPECT_TRUE(fails(encoding("[]"), Code::kCorrupt, "not an object"));
  EXPECT_TRUE(fails(encoding("{}"), Code::kCorrupt, "no `version`"));
  EXPECT_TRUE(fails(encoding(R"({"version":2})"), Code::kCorrupt,
                    "`version` is not a whole number from 1 to 1"));
  EXPECT_TRUE(
      fails(encoding(R"({"version":1,"mean":[1],"inverse_deviation":[],"columns":[],"label_name":"",
                             "label_column":0})"),
            Code::kCorrupt, "differ in length"));
  EXPECT_TRUE(fails(encoding(R"({"version":1,"mean":[1e300],"inverse_deviation":[1]})"),
                    Code::kCorrupt, "no finite number"));
  EXPECT_TRUE(fails(encoding(R"({"version":1,"mean":[],"inverse_deviation":[],
                             "columns":[{"name":"a","categories":["b","a"]}]})"),
                    Code::kCorrupt, "not sorted"));
  EXPECT_TRUE(fails(encoding(R"({"version":1,"mean":[],"inverse_deviation":[],"columns":[7]})"),
                    Code::kCorrupt, "not an object"));

  Spec spec = image_spec();
  spec.class_names.pop_back();
  EXPECT_TRUE(fails(spec_from_json(to_json(spec)), Code::kCorrupt, "not `classes` many"));
  spec = image_spec();
  spec.shape = {1 << 30, 1 << 30};
  EXPECT_TRUE(fails(spec_from_json(to_json(spec)), Code::kCorrupt, "`shape` is impossible"));
  spec = image_spec();
  spec.input = Input::kTokens;
  spec.class_names = {"ab", "c"};
  EXPECT_TRUE(fails(spec_from_json(to_json(spec)), Code::kCorrupt, "no vocabulary"));
}

}  // namespace
}  // namespace tandem::data
