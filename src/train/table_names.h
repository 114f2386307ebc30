// How the tensors of tables that are kept by key are called in a checkpoint's training file, and
// how records of such tables begin. Shared by the writer and the reader of train/table_files.h;
// pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::train {

// A key and the step of its last touch (ps/sparse_table.h).
inline constexpr std::size_t kHeadBytes = 12;
// Of a candidate, in files: key, step of its last touch, touches.
inline constexpr std::size_t kCandidateNumbers = 3;

inline constexpr std::string_view kTablePrefix = "table.";

inline std::string touched_name(std::string_view table) {
  return fmt::format("{}{}.touched", kTablePrefix, table);
}
inline std::string candidates_name(std::string_view table) {
  return fmt::format("{}{}.candidates", kTablePrefix, table);
}
inline std::string state_name(std::string_view table, std::string_view state) {
  return fmt::format("{}{}.{}", kTablePrefix, table, state);
}

}  // namespace tandem::train
