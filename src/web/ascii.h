// Text whose case does not matter, as names of headers and hosts.
#pragma once

#include <string>
#include <string_view>

namespace tandem::web {

inline std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

}  // namespace tandem::web
