#include "checkpoint/owner.h"

#include <fmt/format.h>

#include "base/file.h"

namespace tandem::checkpoint {
namespace {

constexpr const char* kFile = "owner";
constexpr std::size_t kMostBytes = 4096;

}  // namespace

Status set_owner(const std::filesystem::path& run, std::string_view owner) {
  return write_file_atomic(run / kFile, fmt::format("{}\n", owner));
}

Status check_owner(const std::filesystem::path& run, std::string_view owner) {
  if (owner.empty()) return {};
  const Result<std::string> text = read_file(run / kFile, kMostBytes);
  if (!text.ok() && text.error().code() == Code::kNotFound) return {};
  if (!text.ok()) return text.error();
  if (*text == fmt::format("{}\n", owner)) return {};
  return Error(Code::kDenied, fmt::format("{} belongs to other workers by now, which were started "
                                          "when these were taken for lost",
                                          run.string()));
}

}  // namespace tandem::checkpoint
