// What samples should become: classes or values, from arrays and from tables. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/csv.h"
#include "data/dataset.h"

namespace tandem::data {

// kAuto: text, and whole numbers with few distinct values (data/limits.h), are classes; other
// numbers are values.
enum class Task : std::uint8_t { kAuto, kClasses, kValues };

// What messages advise whose labels are numbers to predict and no classes.
inline constexpr std::string_view kSetTask = "set data.task = \"values\" for regression";

// What the training file's labels are.
struct Labelling {
  Target target = Target::kClass;
  std::vector<std::string> class_names;  // kClass.
  std::int64_t width = 1;                // kValue: floats a sample.
  std::string_view for_regression = kSetTask;
};

// The targets of a file's samples; one of the vectors is filled.
struct Targets {
  std::vector<std::int32_t> classes;
  std::vector<float> values;
};

// Arrays: classes are numbers from 0, and named by them. Values may have several columns.
// `for_regression` must outlive the labelling.
Result<Labelling> learn_labels(const Array& labels, Task task,
                               std::string_view for_regression = kSetTask);
Result<Targets> encode_labels(const Array& labels, const Labelling& labelling);

// Tables: classes are the distinct cells of the column, sorted as numbers if all are, as text
// otherwise.
Result<Labelling> learn_labels(const Csv& csv, std::int64_t column, Task task);
Result<Targets> encode_labels(const Csv& csv, std::int64_t column, const Labelling& labelling);

}  // namespace tandem::data
