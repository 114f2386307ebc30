#include "checkpoint/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

namespace tandem::checkpoint {

std::vector<TensorView> views(std::span<const Tensor> tensors) {
  std::vector<TensorView> result;
  for (const Tensor& tensor : tensors) result.push_back({tensor.name, tensor.shape, tensor.values});
  return result;
}

std::vector<TensorView> views(std::span<const IntegerTensor> tensors) {
  std::vector<TensorView> result;
  for (const IntegerTensor& tensor : tensors)
    result.push_back({tensor.name, tensor.shape, {}, std::span(tensor.values)});
  return result;
}

Result<std::int64_t> element_count(const Shape& shape) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) {
      return Error(Code::kCorrupt,
                   fmt::format("shape {} has a negative dimension", to_string(shape)));
    }
    if (dimension == 0) empty = true;
    overflow |= __builtin_mul_overflow(count, dimension, &count);
  }
  if (empty) return std::int64_t{0};
  if (overflow) {
    return Error(Code::kCorrupt,
                 fmt::format("shape {} has more elements than fit into 64 bits", to_string(shape)));
  }
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check_tensors(std::span<const TensorView> tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Error(Code::kInvalidArgument,
                   fmt::format("two tensors are named \"{}\"; names must differ", tensor.name));
    }
    if (tensor.shape.size() > kMostDimensions) {
      return Error(Code::kInvalidArgument, fmt::format("tensor \"{}\" has more than {} dimensions",
                                                       tensor.name, kMostDimensions));
    }
    const Result<std::int64_t> count = element_count(tensor.shape);
    const std::size_t values = tensor.integers ? tensor.integers->size() : tensor.values.size();
    if (!count.ok() || *count != static_cast<std::int64_t>(values)) {
      return Error(Code::kInvalidArgument,
                   fmt::format("tensor \"{}\" has {} values, which is not what its shape {} needs",
                               tensor.name, values, to_string(tensor.shape)));
    }
  }
  return {};
}

std::span<const std::byte> as_bytes(const TensorView& tensor) {
  return tensor.integers ? std::as_bytes(*tensor.integers) : std::as_bytes(tensor.values);
}

std::string_view as_chars(const TensorView& tensor) {
  const std::span<const std::byte> bytes = as_bytes(tensor);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace tandem::checkpoint
