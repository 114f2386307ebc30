// Gzip files, inflated in memory with a limit, so that a small hostile file cannot fill the
// machine. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/limits.h"

namespace tandem::data {

// Whether the bytes begin as a gzip file does.
bool is_gzip(std::string_view bytes);

// The content, of all members if there are several. kCorrupt when the file is truncated, damaged or
// followed by other bytes; kInvalidArgument when the content is larger than `most_bytes`.
Result<std::string> inflate_gzip(std::string_view bytes,
                                 std::int64_t most_bytes = kMostInflatedBytes);

}  // namespace tandem::data
