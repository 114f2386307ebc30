#include "job/print.h"

#include <fmt/format.h>

#include <string_view>

#include "job/field.h"
#include "job/schema.h"

namespace tandem::job {
namespace {

// The parts of "train.optimizer.lr": section, group, leaf; the first two may be empty.
struct Path {
  std::string_view section, group, leaf;
};

Path split(std::string_view path) {
  Path parts;
  const std::size_t first = path.find('.'), last = path.rfind('.');
  if (first != std::string_view::npos) parts.section = path.substr(0, first);
  if (first != last) parts.group = path.substr(first + 1, last - first - 1);
  parts.leaf = path.substr(last == std::string_view::npos ? 0 : last + 1);
  return parts;
}

}  // namespace

std::string print(const Job& job) {
  Job copy = job;  // Fields are reached through pointers that could write.
  const Schema& schema = job_schema();
  std::string text;
  std::string_view section, group;
  for (std::string_view path : schema.paths()) {
    const Key* key = schema.row_for(path, &copy);
    if (key == nullptr || is_unset(*key, &copy)) continue;
    const Path parts = split(path);
    if (!group.empty() && parts.group != group) text += " }\n";
    if (parts.section != section) text += fmt::format("\n[{}]\n", parts.section);
    const std::string value = field_text(*key, &copy);
    if (parts.group.empty()) {
      text += fmt::format("{} = {}\n", parts.leaf, value);
    } else if (parts.group != group) {
      text += fmt::format("{} = {{ {} = {}", parts.group, parts.leaf, value);
    } else {
      text += fmt::format(", {} = {}", parts.leaf, value);
    }
    section = parts.section;
    group = parts.group;
  }
  if (!group.empty()) text += " }\n";
  return text;
}

}  // namespace tandem::job
