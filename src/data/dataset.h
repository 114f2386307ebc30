// A data set in memory and the batches cut from it. A Dataset is immutable after loading and may be
// read by many threads; a Batch belongs to one thread at a time and keeps its memory between uses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/encoding.h"

namespace tandem::data {

enum class Input : std::uint8_t {
  kFloats,  // Images and tables: shape() floats a sample, normalised.
  kTokens,  // Text: shape()[0] character numbers a sample.
};

enum class Target : std::uint8_t {
  kClass,  // One class number for each of targets_per_sample places.
  kValue,  // target_width floats (regression).
};

// What a model must know of the data: the same for every part of a set.
struct Spec {
  Input input = Input::kFloats;
  std::vector<std::int64_t> shape;  // Of one sample: {1, 28, 28}, {30}, {context}.
  Target target = Target::kClass;
  std::int64_t classes = 0;             // kClass: how many; for text the vocabulary's size.
  std::int64_t targets_per_sample = 1;  // 1, or the context's length for text.
  std::int64_t target_width = 0;        // kValue: floats a sample.
  std::vector<std::string>
      class_names;            // What predict prints; for text the vocabulary, one character each.
  std::vector<IdColumn> ids;  // Tables: the inputs that are row numbers, ascending by input.

  std::int64_t sample_size() const;  // The product of shape.

  friend bool operator==(const Spec&, const Spec&) = default;
};

// Samples one after another, as the model reads them. Only the vectors that Spec names are filled.
struct Batch {
  std::int64_t size = 0;
  std::vector<float> inputs;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> classes;
  std::vector<float> values;
};

// Makes room for `samples` samples, so that gathering as many or fewer does not allocate.
void reserve(const Spec& spec, std::int64_t samples, Batch& batch);

// One part of a data set: train, validation or test.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const Spec& spec() const = 0;
  virtual std::int64_t size() const = 0;
  // Copies the named samples into `batch`, in order. Does not allocate once `batch` has held as
  // many. REQUIRES: every index is in [0, size()).
  virtual void gather(std::span<const std::uint32_t> indices, Batch& batch) const = 0;
};

// A hash of the size and of up to 1,024 samples from beginning to end: other data has another, most
// likely.
std::string fingerprint(const Dataset& part);

// The parts of a set; all share one Spec. validation and test may be empty (size 0), never null.
struct Parts {
  Spec spec;
  Encoding encoding;
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
  std::shared_ptr<const Dataset> test;
};

}  // namespace tandem::data
