// Columns of row numbers: in tables, in test files of their own, in what predict reads, and made
// up.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/inputs.h"
#include "data/json.h"
#include "data/source.h"
#include "data/testing.h"

namespace tandem::data {
namespace {

Batch whole(const Dataset& set) {
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(set.size()));
  std::iota(indices.begin(), indices.end(), 0U);
  Batch batch;
  set.gather(indices, batch);
  return batch;
}

class Ids : public testing::Test {
 protected:
  Ids() {
    directory.write("ratings.csv",
                    "user,time,item,rating\n0,100,5,2.5\n1,200,3,4\n2,300,0,1\n1,400,5,3.5\n");
    config.source = "csv";
    config.path = "ratings.csv";
    config.categorical = {"item", "user"};
    config.validation = 0;
    config.test = 0;
  }

  Result<Parts> loaded() { return load(config, directory.path()); }

  TemporaryDirectory directory;
  SourceConfig config;
};

TEST_F(Ids, StayWhatTheyAreWhileNumbersAreNormalised) {
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.shape, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(parts->spec.ids, (std::vector<IdColumn>{{0, 3}, {2, 6}}));
  const Batch batch = whole(*parts->train);
  EXPECT_EQ(batch.inputs[0], 0);
  EXPECT_EQ(batch.inputs[2], 5);
  EXPECT_LT(std::abs(batch.inputs[1]), 2);
  EXPECT_EQ(batch.inputs[9], 1);
  EXPECT_EQ(batch.inputs[11], 5);
}

TEST_F(Ids, ColumnsCanBeIgnored) {
  config.ignore = {"time"};
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.ids, (std::vector<IdColumn>{{0, 3}, {1, 6}}));
  EXPECT_EQ(whole(*parts->train).inputs, (std::vector<float>{0, 5, 1, 3, 2, 0, 1, 5}));
}

TEST_F(Ids, TablesMayBeLargerThanTheFileNeeds) {
  config.rows = {100, 50};  // Of items, then users: in the order of `categorical`.
  EXPECT_EQ(loaded()->spec.ids, (std::vector<IdColumn>{{0, 50}, {2, 100}}));
}

TEST_F(Ids, OutsideTheirTableAreRefusedWithTheirPlace) {
  config.rows = {5, 3};
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument,
                    "ratings.csv: line 2, column `item`: the row 5 is outside its table"));
  config.rows = {5};
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "data.rows has 1 numbers"));
  config.rows = {};
  for (const char* wrong : {"-1", "1.5", "16777216", "x", "1e30", ""}) {
    directory.write("ratings.csv",
                    fmt::format("user,time,item,rating\n0,1,{},2\n1,2,1,3\n", wrong));
    EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "line 2, column `item`")) << wrong;
  }
}

TEST_F(Ids, AColumnIsOneThingOnly) {
  config.ignore = {"user"};
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "column `user` is named twice"));
  config.ignore = {"tim"};
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "did you mean `time`?"));
  config.ignore = {};
  config.label = "item";
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "column `item` is named twice"));
}

TEST_F(Ids, OfATestFileMakeTheTablesLarger) {
  directory.write("test.csv", "item,user,time,rating\n9,1,5,3\n");
  config.test_path = "test.csv";
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.ids, (std::vector<IdColumn>{{0, 3}, {2, 10}}));
  EXPECT_EQ(whole(*parts->test).inputs[2], 9);
}

TEST_F(Ids, OfATrainedModelAreCheckedInWhateverItReads) {
  config.ignore = {"time"};
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  const auto predict = [&](std::string_view content) {
    return read_inputs(directory.write("new", content), parts->spec, parts->encoding);
  };
  const auto good = predict("item,user\n5,2\n");
  ASSERT_TRUE(good.ok()) << good.error().message();
  EXPECT_EQ(whole(**good).inputs, (std::vector<float>{2, 5}));
  EXPECT_TRUE(fails(predict("item,user\n6,2\n"), Code::kInvalidArgument,
                    "the row 6 is outside its table, which has 6 rows"));
  EXPECT_TRUE(predict(npy_bytes("<f4", {1, 2}, raw<float>({2, 5}))).ok());
  EXPECT_TRUE(fails(predict(npy_bytes("<f4", {2, 2}, raw<float>({2, 5, 3, 0}))),
                    Code::kInvalidArgument, "sample 1: input 0 is 3"));
  EXPECT_TRUE(fails(predict(npy_bytes("<f4", {1, 2}, raw<float>({0.5F, 0}))),
                    Code::kInvalidArgument, "input 0 is 0.5"));
  EXPECT_TRUE(fails(predict(npy_bytes("|u1", {1, 2}, std::string("\x00\x06", 2))),
                    Code::kInvalidArgument, "input 1 is 6"));
  SourceConfig later = config;
  later.test_path = "later.csv";
  directory.write("later.csv", "user,time,item,rating\n3,1,0,2\n");
  EXPECT_TRUE(fails(load_own_test(later, directory.path(), parts->spec, parts->encoding),
                    Code::kInvalidArgument, "line 2, column `user`: the row 3 is outside"));
}

TEST_F(Ids, AreStoredWithTheModel) {
  const auto parts = loaded();
  const auto spec = spec_from_json(to_json(parts->spec));
  const auto encoding = encoding_from_json(to_json(parts->encoding));
  ASSERT_TRUE(spec.ok() && encoding.ok());
  EXPECT_EQ(*spec, parts->spec);
  EXPECT_EQ(*encoding, parts->encoding);
}

TEST_F(Ids, OfADamagedModelFileAreRefused) {
  const auto parts = loaded();
  const std::string good = to_json(parts->spec);
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return spec_from_json(text.replace(at, from.size(), to));
  };
  EXPECT_TRUE(fails(changed("\"input\":2", "\"input\":3"), Code::kCorrupt, "`input`"));
  EXPECT_TRUE(fails(changed("\"input\":2", "\"input\":0"), Code::kCorrupt, "not in order"));
  EXPECT_TRUE(fails(changed("\"rows\":6", "\"rows\":0"), Code::kCorrupt, "`rows`"));
  // A model whose tables are smaller than the numbers that its encoding would let through.
  const auto smaller = changed("\"rows\":6", "\"rows\":5");
  ASSERT_TRUE(smaller.ok());
  const auto path = directory.write("new", "user,time,item\n0,0,5\n");
  EXPECT_TRUE(fails(read_inputs(path, *smaller, parts->encoding), Code::kCorrupt, "damaged"));
  Encoding scaled = parts->encoding;
  scaled.normalisation.inverse_deviation[2] = 2;
  EXPECT_TRUE(fails(read_inputs(path, parts->spec, scaled), Code::kCorrupt, "damaged"));
}

SourceConfig ratings() {
  SourceConfig config;
  config.source = "ratings";
  config.users = 50;
  config.items = 70;
  config.samples = 4000;
  return config;
}

TEST(Ratings, ArePureFunctionsOfTheirSeed) {
  const auto first = load(ratings(), "."), again = load(ratings(), ".");
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ(whole(*first->train).inputs, whole(*again->train).inputs);
  EXPECT_EQ(whole(*first->train).values, whole(*again->train).values);
  SourceConfig other = ratings();
  other.seed = 2;
  EXPECT_NE(whole(*load(other, ".")->train).values, whole(*first->train).values);
}

TEST(Ratings, HaveTheSizesThatWereAskedFor) {
  const auto parts = load(ratings(), ".");
  EXPECT_EQ(parts->test->size(), 800);
  EXPECT_EQ(parts->validation->size(), 320);
  EXPECT_EQ(parts->train->size(), 2880);
  EXPECT_EQ(parts->spec.ids, (std::vector<IdColumn>{{0, 50}, {1, 70}}));
  const Batch batch = whole(*parts->train);
  double sum = 0;
  float most_user = 0, most_item = 0;
  for (std::size_t i = 0; i < batch.values.size(); ++i) {
    sum += batch.values[i];
    most_user = std::max(most_user, batch.inputs[2 * i]);
    most_item = std::max(most_item, batch.inputs[2 * i + 1]);
  }
  EXPECT_EQ(most_user, 49);
  EXPECT_EQ(most_item, 69);
  EXPECT_NEAR(sum / static_cast<double>(batch.values.size()), 3.5, 0.3);
}

// The best model's squared error is the noise's.
TEST(Ratings, RepeatButForTheNoise) {
  SourceConfig config = ratings();
  config.noise = 0;
  config.users = 2;
  config.items = 2;
  const Batch batch = whole(*load(config, ".")->train);
  std::vector<float> seen(4, NAN);
  for (std::size_t i = 0; i < batch.values.size(); ++i) {
    float& value =
        seen[static_cast<std::size_t>(2 * batch.inputs[2 * i] + batch.inputs[2 * i + 1])];
    if (std::isnan(value)) value = batch.values[i];
    EXPECT_EQ(batch.values[i], value);
  }
}

TEST(Ratings, RefuseImpossibleSizes) {
  SourceConfig config = ratings();
  config.items = (1 << 24) + 1;
  EXPECT_TRUE(fails(load(config, "."), Code::kInvalidArgument, "users and items"));
}

}  // namespace
}  // namespace tandem::data
