// clang-format off
// Sources: src/data/idx.cc src/data/array.cc src/data/gzip.cc src/base/check.cc src/base/result.cc src/base/text.cc
// Links: -lfmt -lz
// clang-format on
//
// Whatever the bytes, gzip and IDX end with an error or with an array that is as large as its shape
// says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/gzip.h"
#include "data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::data;
  constexpr std::int64_t kMostBytes = 1 << 20;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string inflated;
  if (is_gzip(bytes)) {
    auto result = inflate_gzip(bytes, kMostBytes);
    if (!result.ok()) return 0;
    inflated = std::move(result).value();
    if (inflated.size() > kMostBytes) std::abort();
    bytes = inflated;
  }
  const auto array = parse_idx(bytes);
  if (!array.ok()) return 0;
  std::int64_t count = 1;
  for (std::int64_t extent : array->shape) count *= extent;
  if (array->count() != count) std::abort();
  const auto floats = to_floats(*array);
  if (floats.ok() && floats->size() != static_cast<std::size_t>(count)) std::abort();
  return 0;
}
