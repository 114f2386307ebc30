// Paths in metadata, which is UTF-8, while the system's names are any bytes: a path that is not
// UTF-8 stands there as "hex:" and the digits of its bytes. Pure functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::checkpoint {

// REQUIRES: the path is absolute, so that it does not begin like the digits.
std::string path_to_text(const std::filesystem::path& path);

// kCorrupt when the digits are none.
Result<std::filesystem::path> path_from_text(std::string_view text);

}  // namespace tandem::checkpoint
