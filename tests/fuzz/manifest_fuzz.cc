// clang-format off
// Sources: src/checkpoint/manifest.cc src/checkpoint/safetensors.cc src/checkpoint/safetensors_header.cc src/checkpoint/dtype.cc src/checkpoint/tensor.cc src/base/check.cc src/base/hash.cc src/base/result.cc
// Links: -lfmt -lxxhash
// clang-format on
//
// Whatever the text, the manifest reader ends with an error or with a manifest that says the same
// when it is written and read again, and that can be held against any file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  using namespace tandem::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Manifest> manifest = parse_manifest(text, "input");
  if (!manifest.ok()) {
    const Code code = manifest.error().code();
    if (code != Code::kCorrupt && code != Code::kVersionMismatch) std::abort();
    return 0;
  }
  const std::string json = to_json(*manifest);
  const Result<Manifest> again = parse_manifest(json, "again");
  if (!again.ok() || to_json(*again) != json) std::abort();
  const Status status = check_manifest(*manifest, std::as_bytes(std::span(data, size)), "input");
  if (status.ok() || status.error().code() != Code::kCorrupt) std::abort();
  return 0;
}
