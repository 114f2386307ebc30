// clang-format off
// Sources: src/data/npy.cc src/data/array.cc src/base/check.cc src/base/result.cc src/base/text.cc
// Links: -lfmt
// clang-format on
//
// Whatever the bytes, npy ends with an error or with an array that is as large as its shape says,
// in either order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::data;
  const auto npy = parse_npy({reinterpret_cast<const char*>(data), size});
  if (!npy.ok()) return 0;
  const Array& array = npy->array;
  std::int64_t count = 1;
  for (std::int64_t extent : array.shape) count *= extent;
  if (array.count() != count) std::abort();
  const auto floats = to_floats(array);
  if (floats.ok() && floats->size() != static_cast<std::size_t>(count)) std::abort();
  if (to_row_major(array.bytes, array.shape, size_of(array.element)).size() != array.bytes.size())
    std::abort();
  return 0;
}
