#include "data/source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

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

TEST(Digits, AreEmbeddedAndBalanced) {
  const auto parts = load(SourceConfig(), ".");
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.shape, (std::vector<std::int64_t>{1, 8, 8}));
  EXPECT_EQ(parts->spec.classes, 10);
  EXPECT_EQ(parts->spec.class_names[9], "9");
  EXPECT_EQ(parts->test->size(), 359);
  EXPECT_EQ(parts->validation->size(), 144);
  EXPECT_EQ(parts->train->size(), 1294);
  const Batch train = whole(*parts->train);
  std::map<int, int> counts;
  for (std::int32_t digit : train.classes) ++counts[digit];
  for (const auto& [digit, count] : counts) EXPECT_NEAR(count, 129, 25) << digit;
  const double sum = std::accumulate(train.inputs.begin(), train.inputs.end(), 0.0);
  EXPECT_NEAR(sum / static_cast<double>(train.inputs.size()), 0, 1e-5);
}

TEST(Digits, AreTheSameEveryTime) {
  const auto first = load(SourceConfig(), ".");
  const auto second = load(SourceConfig(), ".");
  EXPECT_EQ(whole(*first->test).inputs, whole(*second->test).inputs);
  EXPECT_EQ(first->encoding, second->encoding);
}

TEST(Digits, MayBeLeftAsTheyAre) {
  SourceConfig config;
  config.normalise = false;
  config.validation = 0;
  config.test = 0;
  const auto parts = load(config, ".");
  EXPECT_EQ(parts->train->size(), 1797);
  EXPECT_EQ(parts->validation->size(), 0);
  EXPECT_EQ(parts->test->size(), 0);
  const Batch train = whole(*parts->train);
  EXPECT_EQ(std::vector<float>(train.inputs.begin(), train.inputs.begin() + 8),
            (std::vector<float>{0, 0, 5, 13, 9, 1, 0, 0}));
}

TEST(Source, SaysHowToFetchASetThatIsNotThere) {
  SourceConfig config;
  config.source = "csv";
  for (const char* name : {"mnist", "fashion-mnist", "austen", "movielens"}) {
    config.path = std::string("../data/") + name + "/absent";
    EXPECT_TRUE(fails(load(config, "examples"), Code::kNotFound,
                      std::string("; `./dev data ") + name + "` fetches it"));
  }
  config.path = "../data/mine/absent";
  const auto mine = load(config, "examples");
  ASSERT_FALSE(mine.ok());
  EXPECT_EQ(mine.error().message().find("fetches"), std::string::npos) << mine.error().message();
}

TEST(Source, SuggestsAKnownName) {
  SourceConfig config;
  config.source = "digit";
  EXPECT_TRUE(fails(load(config, "."), Code::kInvalidArgument, "did you mean \"digits\"?"));
}

// Ten images of 2x2, whose label is i % 3, and a test part of two.
class IdxSource : public testing::Test {
 protected:
  IdxSource() {
    std::string pixels;
    std::string labels;
    for (int i = 0; i < 10; ++i) {
      for (int pixel = 0; pixel < 4; ++pixel) pixels.push_back(static_cast<char>(i * 20 + pixel));
      labels.push_back(static_cast<char>(i % 3));
    }
    directory.write("images", idx_bytes(8, {10, 2, 2}, pixels));
    directory.write("labels", idx_bytes(8, {10}, labels));
    directory.write("images.gz", gzip_bytes(idx_bytes(8, {10, 2, 2}, pixels)));
    directory.write("labels.gz", gzip_bytes(idx_bytes(8, {10}, labels)));
    directory.write("test_images", idx_bytes(8, {2, 2, 2}, pixels.substr(0, 8)));
    directory.write("test_labels", idx_bytes(8, {2}, labels.substr(0, 2)));
    config.source = "idx";
    config.images = "images";
    config.labels = "labels";
    config.normalise = false;
  }

  auto loaded() const { return load(config, directory.path()); }

  TemporaryDirectory directory;
  SourceConfig config;
};

TEST_F(IdxSource, CutsOneFileIntoParts) {
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.shape, (std::vector<std::int64_t>{1, 2, 2}));
  EXPECT_EQ(parts->spec.classes, 3);
  EXPECT_EQ(parts->test->size(), 2);
  EXPECT_EQ(parts->validation->size(), 1);
  EXPECT_EQ(parts->train->size(), 7);
  const Batch batch = whole(*parts->train);
  for (std::size_t i = 0; i < 7; ++i) {
    const int image = static_cast<int>(batch.inputs[i * 4]) / 20;
    EXPECT_EQ(batch.classes[i], image % 3);
    EXPECT_EQ(batch.inputs[i * 4 + 3], static_cast<float>(image * 20 + 3));
  }
}

TEST_F(IdxSource, ReadsGzipAndItsOwnTestPart) {
  config.images = "images.gz";
  config.labels = "labels.gz";
  config.test_images = "test_images";
  config.test_labels = "test_labels";
  const auto parts = loaded();
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->train->size(), 9);
  EXPECT_EQ(parts->validation->size(), 1);
  const Batch test = whole(*parts->test);
  EXPECT_EQ(test.inputs, (std::vector<float>{0, 1, 2, 3, 20, 21, 22, 23}));
  EXPECT_EQ(test.classes, (std::vector<std::int32_t>{0, 1}));
}

TEST_F(IdxSource, SaysWhatIsWrong) {
  const auto expect = [&](Code code, std::string_view part) {
    EXPECT_TRUE(fails(loaded(), code, part));
  };
  config.labels = "test_labels";
  expect(Code::kInvalidArgument, "images has 10 samples but ");
  config.labels = "";
  expect(Code::kInvalidArgument, "data.labels is not set; source = \"idx\" needs it");
  config.labels = "nowhere";
  expect(Code::kNotFound, "nowhere");
  config.labels = "labels";
  config.test_images = "test_images";
  expect(Code::kInvalidArgument, "data.test_labels is not set");
  config.test_labels = "test_labels";
  directory.write("test_labels", idx_bytes(8, {2}, "\x01\x09"));
  expect(Code::kInvalidArgument,
         "test_labels: label 9 (of sample 1) is out of range: there are 3 classes, 0 to 2");
  directory.write("test_labels", idx_bytes(9, {2}, "\x01\xff"));
  expect(Code::kInvalidArgument,
         "test_labels: label -1 (of sample 1) is no class; classes are whole numbers from 0 (for "
         "regression, store the IDX labels as floats)");
  directory.write("test_images", idx_bytes(8, {2, 1, 2}, "abcd"));
  directory.write("test_labels", idx_bytes(8, {2}, "\x01\x01"));
  expect(Code::kInvalidArgument, "samples are 1x1x2, those to train on are 1x2x2");
  config.images = "labels";
  expect(Code::kInvalidArgument, "holds no samples that Tandem knows");
  directory.write("cut.gz", gzip_bytes(idx_bytes(8, {1, 2, 2}, "abcd")).substr(0, 20));
  config.images = "cut.gz";
  expect(Code::kCorrupt, "cut.gz: the gzip data is truncated");
  directory.write("cut", idx_bytes(8, {2, 2, 2}, "abcd"));
  config.images = "cut";
  expect(Code::kCorrupt, "the file is truncated");
}

TEST(NpySource, ReadsRowsAndChannelsLastImages) {
  const TemporaryDirectory directory;
  std::vector<float> rows;
  for (int i = 0; i < 20; ++i) rows.insert(rows.end(), {static_cast<float>(i), 5.0F});
  directory.write("x.npy", npy_bytes("<f4", {20, 2}, raw(rows)));
  std::vector<double> values(20);
  for (std::size_t i = 0; i < 20; ++i) values[i] = 0.5 * static_cast<double>(i);
  directory.write("y.npy", npy_bytes("<f8", {20}, raw(values)));
  SourceConfig config;
  config.source = "npy";
  config.images = "x.npy";
  config.labels = "y.npy";
  config.normalise = false;
  const auto parts = load(config, directory.path());
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.target, Target::kValue);
  EXPECT_EQ(parts->spec.target_width, 1);
  const Batch batch = whole(*parts->train);
  for (std::size_t i = 0; i < batch.values.size(); ++i)
    EXPECT_EQ(batch.values[i], batch.inputs[2 * i] / 2);

  directory.write("x.npy", npy_bytes("|u1", {20, 2, 5, 3}, std::string(600, 'a')));
  config.task = "classes";
  EXPECT_TRUE(fails(load(config, directory.path()), Code::kInvalidArgument,
                    "label 0.5 (of sample 1) is no class"));
  directory.write("y.npy", npy_bytes("<i8", {20, 1}, raw(std::vector<std::int64_t>(20, 1))));
  const auto images = load(config, directory.path());
  ASSERT_TRUE(images.ok()) << images.error().message();
  EXPECT_EQ(images->spec.shape, (std::vector<std::int64_t>{3, 2, 5}));
  EXPECT_EQ(images->encoding.normalisation.mean.size(), 3U);
}

TEST(CsvSource, LearnsFromTheTrainingPartOnly) {
  const TemporaryDirectory directory;
  std::string text = "size,colour,kind\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{},{},{}\n", i, i % 2 ? "red" : "blue", i % 4 ? "small" : "big");
  directory.write("train.csv", text);
  directory.write("test.csv", "kind,colour,size\nbig,green,1000\n");
  SourceConfig config;
  config.source = "csv";
  config.path = "train.csv";
  config.test_path = "test.csv";
  const auto parts = load(config, directory.path());
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(parts->spec.class_names, (std::vector<std::string>{"big", "small"}));
  EXPECT_EQ(parts->encoding.label_name, "kind");
  EXPECT_EQ(parts->encoding.label_column, 2);
  EXPECT_EQ(parts->train->size(), 36);
  EXPECT_EQ(parts->validation->size(), 4);
  const Batch test = whole(*parts->test);
  EXPECT_EQ(test.classes, std::vector<std::int32_t>{0});
  const Normalisation& normalisation = parts->encoding.normalisation;
  EXPECT_EQ(test.inputs,
            (std::vector<float>{(1000 - normalisation.mean[0]) * normalisation.inverse_deviation[0],
                                0, 0}));
  EXPECT_NEAR(normalisation.mean[0], 19.5, 3);
  EXPECT_EQ(normalisation.inverse_deviation[1], 1.0F);
}

TEST(CsvSource, NamesFileLineAndColumn) {
  const TemporaryDirectory directory;
  SourceConfig config;
  config.source = "csv";
  config.path = "t.csv";
  const auto loaded = [&](std::string_view text) {
    directory.write("t.csv", text);
    return load(config, directory.path());
  };
  EXPECT_TRUE(fails(loaded("a,b\n1,2\n3\n"), Code::kInvalidArgument, "t.csv: line 3: 1 columns"));
  EXPECT_TRUE(fails(loaded("a,b\n1,2\n3,4\nx,6\n5,5\n5,5\n"), Code::kInvalidArgument,
                    "t.csv: line 4, column `a`"));
  config.task = "value";
  EXPECT_TRUE(fails(loaded("1,2\n3,4\n5,6\n"), Code::kInvalidArgument, "data.task = \"value\""));
  config.task = "auto";
  config.header = "maybe";
  EXPECT_TRUE(fails(loaded("1,2\n3,4\n"), Code::kInvalidArgument, "data.header = \"maybe\""));
  config.header = "auto";
  config.path = "";
  EXPECT_TRUE(fails(loaded(""), Code::kInvalidArgument, "data.path is not set"));
}

TEST(TextSource, CutsContiguousParts) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
  directory.write("t.txt", text);
  SourceConfig config;
  config.source = "text";
  config.path = "t.txt";
  config.context = 10;
  const auto parts = load(config, directory.path());
  ASSERT_TRUE(parts.ok()) << parts.error().message();
  EXPECT_EQ(parts->spec.input, Input::kTokens);
  EXPECT_EQ(parts->spec.classes, 26);
  EXPECT_EQ(parts->spec.targets_per_sample, 10);
  EXPECT_EQ(parts->train->size(), 71);  // 720 characters.
  EXPECT_EQ(parts->validation->size(), 7);
  EXPECT_EQ(parts->test->size(), 19);
  const Batch test = whole(*parts->test);
  EXPECT_EQ(test.tokens[0], 800 % 26);
  EXPECT_EQ(test.classes[0], 801 % 26);
  config.stride = 1;
  EXPECT_EQ(load(config, directory.path())->train->size(), 710);
}

TEST(TextSource, SaysWhatIsWrong) {
  const TemporaryDirectory directory;
  directory.write("short.txt", "abc");
  directory.write("bad.txt", std::string(100, 'a') + "\xff" + std::string(100, 'b'));
  directory.write("empty.txt", "");
  SourceConfig config;
  config.source = "text";
  config.path = "short.txt";
  EXPECT_TRUE(fails(load(config, directory.path()), Code::kInvalidArgument,
                    "too few for one sample of 64"));
  directory.write("long.txt", std::string(200, 'a'));
  config.path = "long.txt";
  config.test_path = "short.txt";
  EXPECT_TRUE(fails(load(config, directory.path()), Code::kInvalidArgument,
                    "short.txt: the text has 3 characters, too few for one sample of 64"));
  config.test_path.clear();
  config.path = "bad.txt";
  EXPECT_TRUE(fails(load(config, directory.path()), Code::kInvalidArgument,
                    "bad.txt: the text is not UTF-8 at byte 100"));
  config.path = "empty.txt";
  EXPECT_TRUE(fails(load(config, directory.path()), Code::kInvalidArgument,
                    "empty.txt: the file is empty"));
  config.context = 0;
  EXPECT_TRUE(
      fails(load(config, directory.path()), Code::kInvalidArgument, "data.context = 0 must be"));
}

// Test files that a model meets after training, when the training files are gone.
class OwnTest : public testing::Test {
 protected:
  // Trains on what `config` says, which leaves no test file, and forgets the files.
  void learn() {
    auto parts = load(config, directory.path());
    ASSERT_TRUE(parts.ok()) << parts.error().message();
    model = std::move(parts).value();
    EXPECT_FALSE(has_own_test(config));
    for (const std::string& name : {config.path, config.images, config.labels}) {
      if (!name.empty()) std::filesystem::remove(directory.path() / name);
    }
  }

  void use_table(std::string_view test) {
    directory.write("test", test);
    config.test_path = "test";
  }

  void use_arrays(std::string_view images, std::string_view labels) {
    directory.write("test_images", images);
    directory.write("test_labels", labels);
    config.test_images = "test_images";
    config.test_labels = "test_labels";
  }

  auto loaded() const {
    EXPECT_TRUE(has_own_test(config));
    return load_own_test(config, directory.path(), model.spec, model.encoding);
  }

  float normalised(float value, std::size_t group) const {
    const Normalisation& by = model.encoding.normalisation;
    return (value - by.mean[group]) * by.inverse_deviation[group];
  }

  TemporaryDirectory directory;
  SourceConfig config;
  Parts model;
};

TEST_F(OwnTest, OfATableIsEncodedAsInTraining) {
  std::string text = "size,colour,kind\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{},{},{}\n", i * i, i % 2 ? "red" : "blue", i % 4 ? "small" : "big");
  directory.write("train.csv", text);
  config.source = "csv";
  config.path = "train.csv";
  learn();
  use_table("kind,colour,size\nsmall,red,7\n");
  const auto test = loaded();
  ASSERT_TRUE(test.ok()) << test.error().message();
  EXPECT_EQ((*test)->spec(), model.spec);
  EXPECT_EQ(whole(**test).classes, std::vector<std::int32_t>{1});
  EXPECT_EQ(whole(**test).inputs, (std::vector<float>{normalised(7, 0), 0, 1}));

  use_table("class,colour,size\nsmall,red,7\n");
  for (const char* label : {"class", "0"}) {
    config.label = label;
    EXPECT_EQ(whole(**loaded()).classes, std::vector<std::int32_t>{1}) << label;
  }
  config.label = "clas";
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "did you mean `class`?"));
  config.label = "-1";  // The training file's last column, wherever it is here.

  use_table("size,colour,kind\n7,red,huge\n");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "column `kind`: the label `huge`"));
  use_table("size,kind\n7,big\n");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "test: there is no column `colour`"));
  use_table("size,colour\n7,red\n");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "test: there is no column `kind`"));
  config.source = "npy";
  use_arrays(npy_bytes("<f4", {1, 3}, raw<float>({1, 0, 1})), npy_bytes("|u1", {1}, "\x01"));
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "class 0 is `big`"));
}

TEST_F(OwnTest, OfATableMustHaveItsLabel) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{},{}\n", i % 2, i, i * i);
  directory.write("train.csv", text);
  config.source = "csv";
  config.path = "train.csv";
  config.label = "0";
  learn();
  use_table("1,5,9\n0,5,9\n");
  EXPECT_EQ(whole(**loaded()).classes, (std::vector<std::int32_t>{1, 0}));
  use_table("5,9,1\n5,9,0\n");
  config.label = "-1";
  EXPECT_EQ(whole(**loaded()).classes, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(whole(**loaded()).inputs[1], normalised(9, 1));
  config.label = "0";
  use_table("1,9\n0,9\n");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "test: the file has no label"));
}

TEST_F(OwnTest, OfArraysIsEncodedAsInTraining) {
  std::string pixels;
  std::string labels;
  for (int i = 0; i < 20; ++i) {
    for (int pixel = 0; pixel < 4; ++pixel) pixels.push_back(static_cast<char>(i * 10 + pixel));
    labels.push_back(static_cast<char>(i % 3));
  }
  for (const std::string source : {"idx", "npy"}) {
    const auto array = [&](const std::vector<std::uint32_t>& shape, std::string_view bytes) {
      return source == "idx" ? idx_bytes(8, shape, bytes)
                             : npy_bytes("|u1", {shape.begin(), shape.end()}, bytes);
    };
    directory.write("images", array({20, 2, 2}, pixels));
    directory.write("labels", array({20}, labels));
    config = SourceConfig();
    config.source = source;
    config.images = "images";
    config.labels = "labels";
    learn();
    use_arrays(array({1, 2, 2}, "\x01\x02\x03\x04"), array({1}, "\x01"));
    const auto test = loaded();
    ASSERT_TRUE(test.ok()) << test.error().message();
    EXPECT_EQ(whole(**test).classes, std::vector<std::int32_t>{1});
    EXPECT_EQ(whole(**test).inputs, (std::vector<float>{normalised(1, 0), normalised(2, 0),
                                                        normalised(3, 0), normalised(4, 0)}));
    use_arrays(array({1, 2, 2}, "\x01\x02\x03\x04"), array({1}, "\x03"));
    EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "test_labels: label 3 (of sample 0)"));
    use_arrays(array({1, 1, 4}, "\x01\x02\x03\x04"), array({1}, "\x01"));
    EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "samples are 1x1x4"));
    config.test_labels = "";
    EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "data.test_labels is not set"));
  }
  config = SourceConfig();
  config.source = "csv";
  use_table("1,2,3,4,1\n");
  EXPECT_EQ(whole(**loaded()).classes, std::vector<std::int32_t>{1});
  EXPECT_EQ(whole(**loaded()).inputs[3], normalised(4, 0));
}

TEST_F(OwnTest, OfTextKeepsTheVocabulary) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i % 5);
  directory.write("train.txt", text);
  config.source = "text";
  config.path = "train.txt";
  config.context = 4;
  learn();
  use_table("bcbcbcbcb");
  const auto test = loaded();
  ASSERT_TRUE(test.ok()) << test.error().message();
  EXPECT_EQ((*test)->spec(), model.spec);
  EXPECT_EQ(whole(**test).tokens, (std::vector<std::int32_t>{1, 2, 1, 2, 1, 2, 1, 2}));
  use_table("abcxabc");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument,
                    "test: the character `x` (U+0078) at byte 3 did not occur"));
  use_table("abc");
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "test: the text has 3 characters"));
  config.context = 8;
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "trained on 4 characters a sample"));
  config.source = "csv";
  EXPECT_TRUE(fails(loaded(), Code::kInvalidArgument, "which was trained on text"));
}

}  // namespace
}  // namespace tandem::data
