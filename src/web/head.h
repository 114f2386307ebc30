// The head of an HTTP request, checked and cut down before the HTTP library sees it. Only the
// headers that the API reads go on, each at most once; compression, ranges and chunked bodies, for
// which the library trusts the client with memory and time, do not. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "web/reply.h"

namespace tandem::web {

// With the empty line at its end.
constexpr std::size_t kMostHeadBytes = std::size_t{16} << 10;
constexpr std::size_t kMostTargetBytes = 2048;

enum class Expectation : std::uint8_t { kNone, kContinue };

struct Head {
  std::string text;  // What the library may parse, with the empty line at its end.
  std::size_t body_bytes = 0;
  Expectation expectation = Expectation::kNone;
};

// REQUIRES: `raw` ends with the empty line, and has no other.
std::variant<Head, Reply> check_head(std::string_view raw);

// For heads that are longer than kMostHeadBytes.
Reply head_too_large();

}  // namespace tandem::web
