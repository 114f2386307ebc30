// How much memory there is, as far as the system tells. Reads /proc and the control group; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

// Bytes that this process can still get.
std::optional<std::uint64_t> available_memory();

// The memory limit of the control group that this process is in, when it has one.
std::optional<std::uint64_t> memory_limit();

// The value of a `Name:   1234 kB` line of /proc/meminfo in bytes, or 0.
std::uint64_t meminfo_bytes(std::string_view meminfo, std::string_view name);

}  // namespace tandem
