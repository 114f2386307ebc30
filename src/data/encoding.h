// How raw numbers and words became a model's inputs. It is learnt from the training part, stored
// with the model (data/json.h) and applied to whatever predict reads. Plain values; no thread rule
// of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::data {

// input = (raw - mean[c]) * inverse_deviation[c], c the channel of an image or the number of an
// input of a table. Both vectors are equally long and their length divides a sample's size. A
// constant channel has inverse deviation 1. Empty for text.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> inverse_deviation;

  friend bool operator==(const Normalisation&, const Normalisation&) = default;
};

// One column of a table that is not the label.
struct Column {
  std::string name;  // From the header; "": the file had none.
  std::vector<std::string>
      categories;         // Sorted; the column becomes one input for each. Empty: a number.
  std::int64_t rows = 0;  // Not 0: the number is that of a row in a table of so many.

  // How many inputs it becomes.
  std::int64_t width() const {
    return categories.empty() ? 1 : static_cast<std::int64_t>(categories.size());
  }

  friend bool operator==(const Column&, const Column&) = default;
};

// An input that is the number of a row in a table, such as one of embeddings, and no quantity.
struct IdColumn {
  std::int64_t input = 0;  // Its place among a sample's inputs.
  std::int64_t rows = 0;   // Its numbers are whole, from 0 to rows - 1.

  friend bool operator==(const IdColumn&, const IdColumn&) = default;
};

struct Encoding {
  Normalisation normalisation;
  std::vector<Column> columns;  // Tables: in the order of the inputs. Empty: the data was no table.
  std::string label_name;       // Tables with a header: the label's column.
  std::int64_t label_column = -1;  // Tables: its place in the training file, from 0.

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

}  // namespace tandem::data
