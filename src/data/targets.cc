#include "data/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "base/utf8.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

bool is_whole(double number) {
  return number == std::floor(number);
}

// Whether numbers look like the names of classes rather than measurements.
bool look_like_classes(std::span<const double> numbers) {
  std::set<double> distinct;
  for (double number : numbers) {
    if (!is_whole(number)) return false;
    distinct.insert(number);
    if (std::cmp_greater(distinct.size(), kMostAutoClasses)) return false;
  }
  return true;
}

// One column, or one number a sample.
bool is_flat(const Array& labels) {
  return labels.rank() == 1 || (labels.rank() == 2 && labels.shape[1] == 1);
}

Status check_class_number(double number, std::size_t sample, const Labelling& labelling) {
  if (!is_whole(number) || number < 0) {
    return invalid(
        fmt::format("label {} (of sample {}) is no class; classes are whole numbers from 0 ({})",
                    number, sample, labelling.for_regression));
  }
  const std::size_t classes = labelling.class_names.size();
  if (number < static_cast<double>(classes)) return {};
  return invalid(
      fmt::format("label {} (of sample {}) is out of range: there are {} classes, 0 to {}", number,
                  sample, classes, classes - 1));
}

Error too_many_classes(std::string_view how_many, std::string_view for_regression) {
  return invalid(fmt::format("{} classes are too many, {} are possible ({})", how_many,
                             kMostClasses, for_regression));
}

Result<double> label_number(const Csv& csv, std::int64_t row, std::int64_t column) {
  if (const auto number = parse_number(csv.cell(row, column))) return *number;
  return invalid(fmt::format("{}: the label `{}` is not a usable number ({})",
                             csv.place(row, column), csv.cell(row, column).substr(0, 40),
                             kUsableRule));
}

Status check_label_text(const Csv& csv, std::int64_t row, std::int64_t column) {
  const std::string_view cell = csv.cell(row, column);
  if (cell.empty()) {
    return invalid(fmt::format("{}: the label is missing; fill it in or remove the row",
                               csv.place(row, column)));
  }
  if (first_not_utf8(cell) == cell.size()) return {};
  return invalid(
      fmt::format("{}: the label is not UTF-8; save the file as UTF-8", csv.place(row, column)));
}

// A header that was not taken for one, because other columns have numbers for names.
Status check_first_label(const Csv& csv, std::int64_t column) {
  const auto is_number = [&](std::int64_t row) { return looks_like_number(csv.cell(row, column)); };
  if (!csv.header().empty() || csv.rows() < 3 || is_number(0)) return {};
  for (std::int64_t row = 1; row < csv.rows(); ++row) {
    if (!is_number(row)) return {};
  }
  return invalid(
      fmt::format("{}: the label `{}` is a text, where all others are numbers; if the row is a "
                  "header, set data.header = \"yes\", else correct it",
                  csv.place(0, column), csv.cell(0, column).substr(0, 40)));
}

Result<std::vector<std::string>> learn_class_names(const Csv& csv, std::int64_t column) {
  std::set<std::string_view> distinct;
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    TANDEM_TRY(check_label_text(csv, row, column));
    distinct.insert(csv.cell(row, column));
    if (std::cmp_greater(distinct.size(), kMostClasses))
      return too_many_classes(fmt::format("more than {}", kMostClasses), kSetTask);
  }
  std::vector<std::string> names(distinct.begin(), distinct.end());
  const auto number = [](const std::string& name) { return parse_number(name); };
  if (std::all_of(names.begin(), names.end(), number)) {
    std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return *number(a) < *number(b);
    });
  }
  return names;
}

bool column_looks_like_classes(const Csv& csv, std::int64_t column) {
  std::vector<double> numbers;
  std::int64_t texts = 0;
  bool usable = true;  // One that is not is reported when it is read as a number.
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    if (const auto number = parse_number(csv.cell(row, column))) {
      numbers.push_back(*number);
    } else if (looks_like_number(csv.cell(row, column))) {
      usable = false;
    } else {
      ++texts;
    }
  }
  // As with inputs, the majority decides what the column is, so that a stray text among numbers is
  // reported.
  return texts * 2 >= csv.rows() || (usable && look_like_classes(numbers));
}

}  // namespace

Result<Labelling> learn_labels(const Array& labels, Task task, std::string_view for_regression) {
  Labelling labelling;
  labelling.for_regression = for_regression;
  if (labels.rank() > 2) {
    return invalid(fmt::format("labels must have one or two dimensions; the array is {}",
                               describe(labels.shape)));
  }
  TANDEM_ASSIGN(const std::vector<double> numbers, to_doubles(labels));
  const bool classes = task == Task::kClasses ||
                       (task == Task::kAuto && is_flat(labels) && look_like_classes(numbers) &&
                        *std::min_element(numbers.begin(), numbers.end()) >= 0);
  if (!classes) {
    labelling.target = Target::kValue;
    labelling.width = labels.rank() == 1 ? 1 : labels.shape[1];
    return labelling;
  }
  if (!is_flat(labels)) {
    return invalid(fmt::format("class labels must be one number a sample; the array is {}",
                               describe(labels.shape)));
  }
  const double most = *std::max_element(numbers.begin(), numbers.end());
  if (most >= static_cast<double>(kMostClasses))
    return too_many_classes(fmt::format("{:.0f}", most + 1), for_regression);
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(most); ++i)
    labelling.class_names.push_back(std::to_string(i));
  return labelling;
}

Result<Targets> encode_labels(const Array& labels, const Labelling& labelling) {
  Targets targets;
  if (labelling.target == Target::kValue) {
    const std::int64_t width = labels.rank() == 2 ? labels.shape[1] : 1;
    if (labels.rank() > 2 || width != labelling.width) {
      return invalid(fmt::format("the labels are {}, where {} a sample were expected",
                                 describe(labels.shape), labelling.width));
    }
    TANDEM_ASSIGN(targets.values, to_floats(labels));
    return targets;
  }
  if (!is_flat(labels)) {
    return invalid(fmt::format("class labels must be one number a sample; the array is {}",
                               describe(labels.shape)));
  }
  TANDEM_ASSIGN(const std::vector<double> numbers, to_doubles(labels));
  targets.classes.reserve(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    TANDEM_TRY(check_class_number(numbers[i], i, labelling));
    targets.classes.push_back(static_cast<std::int32_t>(numbers[i]));
  }
  return targets;
}

Result<Labelling> learn_labels(const Csv& csv, std::int64_t column, Task task) {
  Labelling labelling;
  if (task == Task::kValues || (task == Task::kAuto && !column_looks_like_classes(csv, column))) {
    labelling.target = Target::kValue;
  } else {
    TANDEM_TRY(check_first_label(csv, column));
    TANDEM_ASSIGN(labelling.class_names, learn_class_names(csv, column));
  }
  return labelling;
}

Result<Targets> encode_labels(const Csv& csv, std::int64_t column, const Labelling& labelling) {
  Targets targets;
  std::unordered_map<std::string_view, std::int32_t> numbers;
  for (const std::string& name : labelling.class_names)
    numbers.emplace(name, static_cast<std::int32_t>(numbers.size()));
  for (std::int64_t row = 0; row < csv.rows(); ++row) {
    if (labelling.target == Target::kValue) {
      TANDEM_ASSIGN(const double value, label_number(csv, row, column));
      targets.values.push_back(static_cast<float>(value));
      continue;
    }
    TANDEM_TRY(check_label_text(csv, row, column));
    const auto found = numbers.find(csv.cell(row, column));
    if (found == numbers.end()) {
      return invalid(fmt::format("{}: the label `{}` is none of the training file's {} classes",
                                 csv.place(row, column), csv.cell(row, column).substr(0, 40),
                                 numbers.size()));
    }
    targets.classes.push_back(found->second);
  }
  return targets;
}

}  // namespace tandem::data
