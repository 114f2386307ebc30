#include "base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"

namespace tandem {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::optional<std::uint64_t> group_number(const char* path) {
  const auto text = read_file(path, 64);
  if (!text.ok()) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> available_memory() {
  const auto text = read_file("/proc/meminfo", kMostBytes);
  const std::uint64_t available = text.ok() ? meminfo_bytes(*text, "MemAvailable") : 0;
  if (available == 0) return std::nullopt;
  const auto limit = memory_limit();
  if (!limit) return available;
  const std::uint64_t used = group_number("/sys/fs/cgroup/memory.current").value_or(0);
  return std::min(available, *limit - std::min(*limit, used));
}

std::optional<std::uint64_t> memory_limit() {
  return group_number("/sys/fs/cgroup/memory.max");
}

std::uint64_t meminfo_bytes(std::string_view meminfo, std::string_view name) {
  const std::string start = fmt::format("{}:", name);
  std::size_t at = meminfo.starts_with(start) ? 0 : meminfo.find("\n" + start);
  if (at == std::string_view::npos) return 0;
  at = meminfo.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return 0;
  std::uint64_t kilobytes = 0;
  std::from_chars(meminfo.data() + at, meminfo.data() + meminfo.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace tandem
