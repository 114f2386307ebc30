#include "data/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "data/limits.h"

namespace tandem::data {
namespace {

struct ElementInfo {
  std::string_view name;
  std::int64_t bytes;
};

// In the order of Element.
constexpr std::array<ElementInfo, 10> kElements = {{{"bool", 1},
                                                    {"u8", 1},
                                                    {"i8", 1},
                                                    {"u16", 2},
                                                    {"i16", 2},
                                                    {"u32", 4},
                                                    {"i32", 4},
                                                    {"i64", 8},
                                                    {"f32", 4},
                                                    {"f64", 8}}};

template <typename T>
T read(const char* from, std::endian order) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (order != std::endian::native) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

template <typename T, typename To>
Status convert(const Array& array, std::vector<To>& out) {
  const char* from = array.bytes.data();
  for (std::size_t i = 0; i < out.size(); ++i, from += sizeof(T)) {
    const T value = read<T>(from, array.order);
    if constexpr (std::is_floating_point_v<T> || sizeof(T) == 8) {
      if (!is_usable(static_cast<double>(value))) {
        return Error(Code::kInvalidArgument,
                     fmt::format("element {} (from 0, of an array {}) is {}: {}", i,
                                 describe(array.shape), value, kUsableRule));
      }
    }
    out[i] = static_cast<To>(value);
  }
  return {};
}

template <typename To>
Result<std::vector<To>> convert_all(const Array& array) {
  std::vector<To> out(static_cast<std::size_t>(array.count()));
  const auto status = [&]() -> Status {
    switch (array.element) {
      case Element::kBool:
      case Element::kU8:
        return convert<std::uint8_t>(array, out);
      case Element::kI8:
        return convert<std::int8_t>(array, out);
      case Element::kU16:
        return convert<std::uint16_t>(array, out);
      case Element::kI16:
        return convert<std::int16_t>(array, out);
      case Element::kU32:
        return convert<std::uint32_t>(array, out);
      case Element::kI32:
        return convert<std::int32_t>(array, out);
      case Element::kI64:
        return convert<std::int64_t>(array, out);
      case Element::kF32:
        return convert<float>(array, out);
      case Element::kF64:
        return convert<double>(array, out);
    }
    return Error(Code::kInternal, "unknown element type");
  }();
  TANDEM_TRY(status);
  return out;
}

}  // namespace

std::string_view to_string(Element element) {
  return kElements[static_cast<std::size_t>(element)].name;
}

std::int64_t size_of(Element element) {
  return kElements[static_cast<std::size_t>(element)].bytes;
}

bool is_float(Element element) {
  return element == Element::kF32 || element == Element::kF64;
}

std::string describe(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "()" : fmt::format("{}", fmt::join(shape, "x"));
}

Status check_payload(const std::vector<std::int64_t>& shape, Element element,
                     std::string_view payload) {
  constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = size_of(element);
  for (std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && bytes > kMostBytes / extent)) {
      return Error(
          Code::kCorrupt,
          fmt::format("the header claims an array {}, which no file can hold", describe(shape)));
    }
    bytes *= extent;
  }
  if (std::cmp_equal(bytes, payload.size())) return {};
  return Error(
      Code::kCorrupt,
      fmt::format(
          "the header promises an array {} of {}, {} bytes, but {} bytes follow it: the file is {}",
          describe(shape), to_string(element), with_commas(bytes),
          with_commas(static_cast<std::int64_t>(payload.size())),
          std::cmp_less(payload.size(), bytes) ? "truncated" : "damaged or of another format"));
}

Result<std::vector<float>> to_floats(const Array& array) {
  return convert_all<float>(array);
}

Result<std::vector<double>> to_doubles(const Array& array) {
  return convert_all<double>(array);
}

std::string to_row_major(std::string_view bytes, const std::vector<std::int64_t>& shape,
                         std::int64_t element_bytes) {
  const auto size = static_cast<std::size_t>(element_bytes);
  std::vector<std::size_t> strides;  // Elements between neighbours along each dimension.
  std::size_t count = 1;
  for (std::int64_t extent : shape) {
    strides.push_back(count);
    count *= static_cast<std::size_t>(extent);
  }
  std::string out(bytes.size(), '\0');
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < count; ++to) {
    std::memcpy(out.data() + to * size, bytes.data() + from * size, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace tandem::data
