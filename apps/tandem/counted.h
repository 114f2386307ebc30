// Numbers of things in messages to people. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tandem::cli {

// "1 step", "1,234 steps". REQUIRES: the noun's plural ends in a plain "s".
inline std::string counted(std::int64_t number, std::string_view noun) {
  return with_commas(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace tandem::cli
