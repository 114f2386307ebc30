// clang-format off
// Sources: src/checkpoint/safetensors.cc src/checkpoint/safetensors_header.cc src/checkpoint/dtype.cc src/checkpoint/tensor.cc src/base/check.cc src/base/result.cc
// Links: -lfmt
// clang-format on
//
// Whatever the bytes, the safetensors reader ends with an error or with tensors that all can be
// read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::checkpoint;
  const auto file = parse_safetensors(std::as_bytes(std::span(data, size)), "input");
  if (!file.ok()) return 0;
  std::size_t bytes = 0;
  for (const TensorEntry& entry : file->tensors) {
    bytes += file->bytes(entry).size();
    if (read_floats(*file, entry).ok() != is_float(entry.dtype)) std::abort();
  }
  if (bytes != file->data.size()) std::abort();
  return 0;
}
