// CSV files, and tables made of them.
#include "data/table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "data/csv.h"
#include "data/npy.h"
#include "data/targets.h"
#include "data/testing.h"

namespace tandem::data {
namespace {

std::vector<std::vector<std::string>> cells(const Csv& csv) {
  std::vector<std::vector<std::string>> rows(static_cast<std::size_t>(csv.rows()));
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    for (std::int64_t column = 0; column < csv.columns(); ++column) {
      rows[static_cast<std::size_t>(row)].emplace_back(csv.cell(row, column));
    }
  }
  return rows;
}

using Rows = std::vector<std::vector<std::string>>;

Rows parsed(std::string_view text, Header header = Header::kNo) {
  const auto csv = parse_csv(text, header);
  EXPECT_TRUE(csv.ok()) << csv.error().message();
  return csv.ok() ? cells(*csv) : Rows();
}

std::vector<std::uint32_t> all_rows(const Csv& csv) {
  std::vector<std::uint32_t> rows(static_cast<std::size_t>(csv.rows()));
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

TEST(Csv, ReadsQuotesLineBreaksAndSpaces) {
  EXPECT_EQ(parsed("1, 2 ,3\r\n\r\n4,\"a,b\",\"say \"\"hi\"\"\"\n\"two\nlines\",,\"\" "),
            (Rows{{"1", "2", "3"}, {"4", "a,b", "say \"hi\""}, {"two\nlines", "", ""}}));
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "1,2\r"),
            (Rows{{"1", "2"}}));
}

TEST(Csv, FindsOtherSeparators) {
  EXPECT_EQ(parsed("1;\"a,b\";3\n4;5;6\n"), (Rows{{"1", "a,b", "3"}, {"4", "5", "6"}}));
  EXPECT_EQ(parsed("1\t2\n3\t\n"), (Rows{{"1", "2"}, {"3", ""}}));
}

TEST(Csv, RecognisesAHeader) {
  const auto header = [](std::string_view text) {
    return parse_csv(text, Header::kAuto)->header();
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(header("a,b\n1,x\n"), (Names{"a", "b"}));
  EXPECT_EQ(header("5.1,setosa\n4.9,setosa\n"), Names());
  EXPECT_EQ(header("p,x\ne,x\n"), Names());  // A value occurs again: rows of letters.
  EXPECT_EQ(header("colour,shape\nred,round\n"), (Names{"colour", "shape"}));
  EXPECT_EQ(parse_csv("1,2\n3,4", Header::kYes)->header(), (Names{"1", "2"}));
  EXPECT_EQ(parse_csv("a,b\n3,4", Header::kNo)->rows(), 2);
}

TEST(Csv, NamesTheLineOfAMistake) {
  EXPECT_TRUE(fails(parse_csv("a,b\n1,2\n\"x\ny\",4\n5\n", Header::kAuto), Code::kInvalidArgument,
                    "line 5: 1 columns where the first row has 2"));
  EXPECT_TRUE(
      fails(parse_csv("1,\"open\n2,3\n", Header::kNo), Code::kInvalidArgument, "line 1: a quote"));
  EXPECT_TRUE(fails(parse_csv("1,2\n\"a\"b,3\n", Header::kNo), Code::kInvalidArgument,
                    "line 2: text follows a closing quote"));
  EXPECT_TRUE(fails(parse_csv("a,a\n1,2\n", Header::kAuto), Code::kInvalidArgument,
                    "two columns are named `a`"));
  EXPECT_TRUE(
      fails(parse_csv("a,b\n", Header::kAuto), Code::kInvalidArgument, "a header but no rows"));
  EXPECT_TRUE(fails(parse_csv("\n\n", Header::kAuto), Code::kInvalidArgument, "no rows"));
}

// What any table becomes when written with every cell quoted.
std::string quoted(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i > 0 ? ",\"" : "\"";
      for (char c : row[i]) text += c == '"' ? "\"\"" : std::string(1, c);
      text += '"';
    }
    text += "\r\n";
  }
  return text;
}

TEST(Csv, GivesBackWhateverWasQuoted) {
  EXPECT_TRUE(rc::check([] {
    const auto width = *rc::gen::inRange<std::size_t>(2, 6);
    const auto height = *rc::gen::inRange<std::size_t>(1, 8);
    const auto cell =
        rc::gen::container<std::string>(rc::gen::element('a', '"', ',', '\n', '\r', ' ', ';'));
    const auto row = rc::gen::container<std::vector<std::string>>(width, cell);
    const Rows rows = *rc::gen::container<Rows>(height, row);
    RC_ASSERT(cells(*parse_csv(quoted(rows), Header::kNo)) == rows);
  }));
}

TEST(Csv, ParsesNumbersStrictly) {
  EXPECT_EQ(parse_number("+1.5e2"), 150.0);
  EXPECT_EQ(parse_number("-.5"), -0.5);
  for (const char* text : {"", "+", "1x", "nan", "inf", "1e30", "0x10", "1,5", "+-1", " 1"}) {
    EXPECT_FALSE(parse_number(text)) << text;
  }
  for (const char* text : {"1", "1e30", "-1e999", "nan", "inf"})
    EXPECT_TRUE(looks_like_number(text)) << text;
  for (const char* text : {"", "1x", "a", "+"}) EXPECT_FALSE(looks_like_number(text)) << text;
}

TEST(Table, FindsTheLabel) {
  const auto csv = parse_csv("age,city,pay\n1,x,2\n", Header::kAuto);
  EXPECT_EQ(*find_label(*csv, ""), 2);
  EXPECT_EQ(*find_label(*csv, "age"), 0);
  EXPECT_EQ(*find_label(*csv, "1"), 1);
  EXPECT_EQ(*find_label(*csv, "-3"), 0);
  EXPECT_TRUE(fails(find_label(*csv, "3"), Code::kInvalidArgument,
                    "no label column 3: the file has 3 columns"));
  EXPECT_TRUE(fails(find_label(*csv, "-4"), Code::kInvalidArgument, "no label column -4"));
  EXPECT_TRUE(fails(find_label(*csv, "ciyt"), Code::kInvalidArgument, "did you mean `city`?"));
  const auto bare = parse_csv("1,2\n", Header::kNo);
  EXPECT_TRUE(fails(find_label(*bare, "pay"), Code::kInvalidArgument, "the file has no header"));
}

TEST(Table, EncodesNumbersAndCategories) {
  const auto csv =
      parse_csv("age,city,pay\n10,oslo,1\n20,bonn,2\n30,oslo,3\n40,rome,4\n", Header::kAuto);
  const std::vector<std::uint32_t> train = {0, 1, 2};
  const auto columns = learn_columns(*csv, {.label = 2}, train);
  ASSERT_TRUE(columns.ok()) << columns.error().message();
  ASSERT_EQ(columns->size(), 2U);
  EXPECT_EQ((*columns)[0], (Column{"age", {}}));
  EXPECT_EQ((*columns)[1], (Column{"city", {"bonn", "oslo"}}));
  const auto features = encode_columns(*csv, *columns, std::vector<std::int64_t>{0, 1});
  ASSERT_TRUE(features.ok()) << features.error().message();
  // rome is not in the training rows: zeros.
  EXPECT_EQ(features->floats, (std::vector<float>{10, 0, 1, 20, 1, 0, 30, 0, 1, 40, 0, 0}));
}

Result<Features> encode_all(std::string_view text) {
  TANDEM_ASSIGN(const Csv csv, parse_csv(text, Header::kAuto));
  TANDEM_ASSIGN(const auto columns,
                learn_columns(csv, {.label = csv.columns() - 1}, all_rows(csv)));
  std::vector<std::int64_t> places(columns.size());
  std::iota(places.begin(), places.end(), 0);
  return encode_columns(csv, columns, places);
}

TEST(Table, NamesRowAndColumnOfABadValue) {
  EXPECT_TRUE(fails(encode_all("age,y\n1,0\n2,0\nold,0\n"), Code::kInvalidArgument,
                    "line 4, column `age`: `old` is not a usable number"));
  EXPECT_TRUE(fails(encode_all("age,y\n1,0\n,0\n3,1\n"), Code::kInvalidArgument,
                    "line 3, column `age`: the value is missing"));
  EXPECT_TRUE(
      fails(encode_all("1,0\n2,0\nnan,1\n"), Code::kInvalidArgument, "line 3, column 0: `nan`"));
  EXPECT_TRUE(fails(encode_all("city,y\noslo,0\n,1\n"), Code::kInvalidArgument,
                    "line 3, column `city`: the value is"));
  EXPECT_TRUE(
      fails(encode_all("city,y\noslo,0\n\xff\xfe,1\n"), Code::kInvalidArgument, "not UTF-8"));
  EXPECT_TRUE(fails(encode_all("1\n2\n"), Code::kInvalidArgument, "one column"));
}

TEST(Table, RefusesTooManyCategories) {
  std::string text = "name,y\n";
  for (int i = 0; i <= 1000; ++i) text += "n" + std::to_string(i) + ",0\n";
  EXPECT_TRUE(fails(encode_all(text), Code::kInvalidArgument,
                    "column `name` holds text with more than 1000 distinct"));
}

Result<Labelling> labels_of(std::string_view column, Task task) {
  TANDEM_ASSIGN(const Csv csv, parse_csv(column, Header::kNo));
  return learn_labels(csv, 0, task);
}

TEST(Targets, AutoTellsClassesFromValues) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(labels_of("b\na\nb\n", Task::kAuto)->class_names, (Names{"a", "b"}));
  EXPECT_EQ(labels_of("10\n9\n-1\n", Task::kAuto)->class_names, (Names{"-1", "9", "10"}));
  EXPECT_EQ(labels_of("1.5\n2\n", Task::kAuto)->target, Target::kValue);
  EXPECT_EQ(labels_of("1\n2\n", Task::kValues)->target, Target::kValue);
  EXPECT_EQ(labels_of("1.5\n2\n", Task::kClasses)->class_names, (Names{"1.5", "2"}));
  std::string many;
  for (int i = 0; i < 101; ++i) many += std::to_string(i) + "\n";
  EXPECT_EQ(labels_of(many, Task::kAuto)->target, Target::kValue);
}

TEST(Targets, ATextBeforeNumbersMayBeAHeader) {
  const auto csv = parse_csv("0,1,target\n1,2,0\n3,4,1\n", Header::kAuto);
  ASSERT_TRUE(csv->header().empty());
  EXPECT_TRUE(fails(learn_labels(*csv, 2, Task::kAuto), Code::kInvalidArgument,
                    "the label `target` is a text, where all others are numbers; if the row is a "
                    "header, set data.header = \"yes\""));
  const auto classes = parse_csv("1,a\n2,b\n3,1\n", Header::kNo);
  EXPECT_TRUE(learn_labels(*classes, 1, Task::kAuto).ok());
}

TEST(Targets, NumbersThatAreTooLargeAreNoClasses) {
  const auto csv = parse_csv("1,0\n2,1e30\n3,2e30\n", Header::kNo);
  const auto labelling = learn_labels(*csv, 1, Task::kAuto);
  ASSERT_TRUE(labelling.ok());
  EXPECT_EQ(labelling->target, Target::kValue);
  EXPECT_TRUE(fails(encode_labels(*csv, 1, *labelling), Code::kInvalidArgument,
                    "the label `1e30` is not a usable number"));
  const auto names = parse_csv("1,cat\n2,dog\n3,nan\n", Header::kNo);
  EXPECT_EQ(learn_labels(*names, 1, Task::kAuto)->class_names,
            (std::vector<std::string>{"cat", "dog", "nan"}));
}

TEST(Targets, NameThePlaceOfABadLabel) {
  const auto csv = parse_csv("1,a\n2,\n3,c\n", Header::kNo);
  EXPECT_TRUE(fails(learn_labels(*csv, 1, Task::kClasses), Code::kInvalidArgument,
                    "line 2, column 1: the label is missing"));
  Labelling values;
  values.target = Target::kValue;
  EXPECT_TRUE(fails(encode_labels(*csv, 1, values), Code::kInvalidArgument,
                    "line 1, column 1: the label `a` is not"));
  Labelling classes;
  classes.class_names = {"1", "2"};
  EXPECT_TRUE(fails(encode_labels(*csv, 0, classes), Code::kInvalidArgument,
                    "line 3, column 0: the label `3` is none of the training file's 2 classes"));
}

template <typename T>
Result<Targets> array_targets(std::string_view descr, const std::vector<std::int64_t>& shape,
                              const std::vector<T>& numbers, Task task, Labelling& labelling) {
  const std::string bytes = npy_bytes(descr, shape, raw(numbers));
  TANDEM_ASSIGN(const Npy npy, parse_npy(bytes));
  TANDEM_ASSIGN(labelling, learn_labels(npy.array, task));
  return encode_labels(npy.array, labelling);
}

TEST(Targets, ArraysHoldClassesOrValues) {
  Labelling labelling;
  const auto classes = array_targets<std::int32_t>("<i4", {3}, {2, 0, 2}, Task::kAuto, labelling);
  EXPECT_EQ(labelling.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(classes->classes, (std::vector<std::int32_t>{2, 0, 2}));
  const auto values = array_targets<float>("<f4", {2, 2}, {1, 2, 3, 4}, Task::kAuto, labelling);
  EXPECT_EQ(labelling.width, 2);
  EXPECT_EQ(values->values, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_TRUE(fails(array_targets<std::int32_t>("<i4", {2}, {0, -1}, Task::kClasses, labelling),
                    Code::kInvalidArgument,
                    "label -1 (of sample 1) is no class; classes are whole numbers from "
                    "0 (set data.task = \"values\" for regression)"));
  EXPECT_TRUE(fails(array_targets<std::int32_t>("<i4", {1}, {70000}, Task::kClasses, labelling),
                    Code::kInvalidArgument, "70001 classes are too many"));
}

}  // namespace
}  // namespace tandem::data
