// An n-dimensional array of numbers as it lies in an IDX or npy file, and its conversion. An Array
// only looks at the file's bytes: they must outlive it. Plain values; no thread rule of their own.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::data {

enum class Element : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kI64,
  kF32,
  kF64,
};

// "u8", "f32", …
std::string_view to_string(Element element);
std::int64_t size_of(Element element);
bool is_float(Element element);

struct Array {
  Element element = Element::kU8;
  std::endian order = std::endian::little;
  std::vector<std::int64_t> shape;  // Row-major; the last index runs fastest.
  std::string_view bytes;           // count() elements.

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(bytes.size()) / size_of(element); }
};

// "60000x28x28"
std::string describe(const std::vector<std::int64_t>& shape);

// Checks that `payload` is exactly an array of this shape, whatever the shape claims. The error
// says how many bytes there should be and how many there are.
Status check_payload(const std::vector<std::int64_t>& shape, Element element,
                     std::string_view payload);

// Every element as a number. kInvalidArgument when one is not finite or too large to train on.
Result<std::vector<float>> to_floats(const Array& array);
Result<std::vector<double>> to_doubles(const Array& array);

// The bytes of an array whose FIRST index runs fastest (Fortran's order), put into row-major order.
std::string to_row_major(std::string_view bytes, const std::vector<std::int64_t>& shape,
                         std::int64_t element_bytes);

}  // namespace tandem::data
