// The JSON header of a safetensors file, read event by event: no tree is built, so a hostile header
// cannot make the reader allocate more than a small multiple of its own length. Used by
// checkpoint/safetensors.cc only.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace tandem::checkpoint {

struct Header {
  Metadata metadata;
  std::vector<TensorEntry> tensors;  // As the header lists them; offsets are not yet checked.
};

// kCorrupt says what is wrong, in which tensor; kVersionMismatch for an element type that is not
// known.
Result<Header> parse_header(std::string_view json);

}  // namespace tandem::checkpoint
