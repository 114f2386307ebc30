// From the arguments of the program to Options. The only user of CLI11, which is slow to compile.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "options.h"

namespace tandem::cli {

// `arguments` without the program's name. kInvalidArgument says what is wrong and what was probably
// meant.
Result<Options> parse_command_line(std::span<const std::string> arguments,
                                   std::string_view version);

}  // namespace tandem::cli
