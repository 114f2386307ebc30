// What model files are made of: named float arrays with shapes, the keys of tables, which are whole
// numbers, and text metadata. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::checkpoint {

using Shape = std::vector<std::int64_t>;
using Metadata = std::map<std::string, std::string>;

// Of one tensor; numpy's limit.
inline constexpr std::size_t kMostDimensions = 32;

// A tensor that is read from a file.
struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// One of whole numbers.
struct IntegerTensor {
  std::string name;
  Shape shape;
  std::vector<std::int64_t> values;
};

// A tensor that is to be written, in somebody else's memory.
struct TensorView {
  std::string name;
  Shape shape;
  std::span<const float> values;
  std::optional<std::span<const std::int64_t>> integers = {};  // Instead of values.
};

// The same tensors, to be written; they must outlive the views.
std::vector<TensorView> views(std::span<const Tensor> tensors);
std::vector<TensorView> views(std::span<const IntegerTensor> tensors);

// The product of the dimensions (1 for none), or kCorrupt when one is negative or the product
// exceeds 2^63 - 1.
Result<std::int64_t> element_count(const Shape& shape);

// "[3, 224, 224]".
std::string to_string(const Shape& shape);

// What every writer needs: no two names equal, at most kMostDimensions dimensions, and as many
// values as the shape says. kInvalidArgument names the tensor.
Status check_tensors(std::span<const TensorView> tensors);

// A tensor's memory as bytes and as characters.
std::span<const std::byte> as_bytes(const TensorView& tensor);
std::string_view as_chars(const TensorView& tensor);

}  // namespace tandem::checkpoint
