#include "checkpoint/path_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace tandem::checkpoint {
namespace {

constexpr std::string_view kHex = "hex:";

}  // namespace

std::string path_to_text(const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  if (first_not_utf8(bytes) == bytes.size()) return bytes;
  std::string text(kHex);
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Result<std::filesystem::path> path_from_text(std::string_view text) {
  if (!text.starts_with(kHex)) return std::filesystem::path(text);
  std::string bytes;
  for (std::string_view rest = text.substr(kHex.size()); !rest.empty(); rest.remove_prefix(2)) {
    unsigned value = 0;
    const char* const end = rest.data() + std::min<std::size_t>(2, rest.size());
    const auto [at, error] = std::from_chars(rest.data(), end, value, 16);
    if (error != std::errc() || at != end || rest.size() < 2)
      return Error(Code::kCorrupt, fmt::format("`{}` is no path", text));
    bytes += static_cast<char>(value);
  }
  return std::filesystem::path(bytes);
}

}  // namespace tandem::checkpoint
