// What a job file says in [data], and how it becomes a data set in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "data/dataset.h"

namespace tandem::data {

struct SourceConfig {
  std::string source = "digits";  // digits, idx, csv, npy, text, ratings.
  std::string images, labels, test_images,
      test_labels;        // idx, npy (arrays); .gz is recognised by content.
  std::string path;       // csv, text.
  std::string test_path;  // csv, text: a test part of its own; "": cut from `path`.
  std::string
      label;  // csv: a column's name, or its number from 0 (negative: from the end). "": the last.
  std::string header = "auto";           // csv: auto, yes, no.
  std::string task = "auto";             // csv, npy: auto, classes, values (regression).
  std::vector<std::string> categorical;  // csv: columns of row numbers, named as `label` is.
  std::vector<std::int64_t> rows;        // csv: of their tables; empty: the largest number + 1.
  std::vector<std::string> ignore;       // csv with a header: columns that are not read.
  std::int64_t users = 1000;             // ratings.
  std::int64_t items = 1000;             // ratings.
  std::int64_t samples = 100000;         // ratings.
  std::int64_t rank = 4;                 // ratings: numbers that describe a user or an item.
  double noise = 0.5;                    // ratings: deviation of what cannot be predicted.
  std::uint64_t seed = 1;                // ratings.
  std::int64_t context = 64;             // text: characters a sample.
  std::int64_t stride = 0;               // text: characters between samples; 0: the context.
  double validation = 0.1;               // Share of the training part, by index.
  double test = 0.2;  // Share of the whole when there is no test part of its own.
  bool normalise = true;
  std::int64_t prefetch = 1;  // Threads that prepare batches ahead; 0: none.
};

// Loads the set into memory. Relative paths are taken from `base_directory` (the job file's).
// Errors name the file, the place in it, and what was expected.
//
// A file that holds several parts is dealt out by a fixed pseudo-random order of its samples that
// does not depend on a job's seed (data/split.h); a text is cut into contiguous pieces instead.
// What is learnt (normalisation, categories) is learnt from the training part alone; a category
// that it does not have becomes zeros elsewhere. Class names and a text's vocabulary are those of
// all parts of the training file.
Result<Parts> load(const SourceConfig& config, const std::filesystem::path& base_directory);

// Whether the test part comes from files of its own.
bool has_own_test(const SourceConfig& config);

// Loads such a test part alone, for a model that was trained on `spec` and `encoding`: nothing is
// learnt, and the training files need not be there. kInvalidArgument names a label, column or
// character that the model does not know, or a row that its table does not have. REQUIRES:
// has_own_test(config).
Result<std::shared_ptr<const Dataset>> load_own_test(const SourceConfig& config,
                                                     const std::filesystem::path& base_directory,
                                                     const Spec& spec, const Encoding& encoding);

}  // namespace tandem::data
