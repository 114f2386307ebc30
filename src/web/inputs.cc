#include "web/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text.h"

namespace tandem::web {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOverrides = 1000;
constexpr std::int64_t kMostPriority = 1000;
constexpr std::int64_t kMostWorkers = 65536;
constexpr std::int64_t kMostServers = 256;
constexpr std::size_t kMostIdBytes = 128;

Error invalid(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

// " (did you mean `x`?)", or "".
std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? std::string() : fmt::format("; did you mean `{}`?", near);
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

Result<json> parse_object(std::string_view body, std::span<const std::string_view> known) {
  if (body.empty()) return json::object();
  json value;
  try {
    value = json::parse(body);
  } catch (const json::parse_error& error) {
    return invalid(fmt::format("the body is not JSON: byte {} of {}", error.byte, body.size()));
  }
  if (!value.is_object())
    return invalid(fmt::format("the body is a JSON {}; an object was expected", value.type_name()));
  for (const auto& [key, ignored] : value.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return invalid(fmt::format("unknown field `{}`{}", shortened(key), suggestion(key, known)));
  }
  return value;
}

Result<std::string> text_field(const json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::string();
  if (!found->is_string())
    return invalid(fmt::format("`{}` is a {}; a string was expected", name, found->type_name()));
  return found->get<std::string>();
}

struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Result<std::optional<std::int64_t>> integer_field(const json& object, const std::string& name,
                                                  Range range) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::optional<std::int64_t>();
  const std::string expected =
      fmt::format("an integer from {} to {} was expected", range.least, range.most);
  if (!found->is_number_integer())
    return invalid(fmt::format("`{}` is a {}; {}", name, found->type_name(), expected));
  const bool huge =
      found->is_number_unsigned() &&
      found->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const auto value = found->get<std::int64_t>();
  if (huge || value < range.least || value > range.most)
    return invalid(fmt::format("`{}` is {}; {}", name, found->dump(), expected));
  return std::optional<std::int64_t>(value);
}

Result<std::vector<std::string>> overrides_field(const json& object) {
  std::vector<std::string> overrides;
  const auto found = object.find("overrides");
  if (found == object.end()) return overrides;
  constexpr std::string_view kExpected = "an array of strings like \"train.epochs=3\" was expected";
  if (!found->is_array())
    return invalid(fmt::format("`overrides` is a {}; {}", found->type_name(), kExpected));
  if (found->size() > kMostOverrides) {
    return invalid(fmt::format("`overrides` holds {} strings; at most {} were expected",
                               found->size(), kMostOverrides));
  }
  for (const json& item : *found) {
    if (!item.is_string()) {
      return invalid(fmt::format("`overrides[{}]` is a {}; {}", overrides.size(), item.type_name(),
                                 kExpected));
    }
    overrides.push_back(item.get<std::string>());
  }
  return overrides;
}

}  // namespace

Status check_query(const Query& query, std::span<const std::string_view> known) {
  for (const auto& [name, ignored] : query) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return invalid(
          fmt::format("unknown parameter `{}`{}", shortened(name), suggestion(name, known)));
    }
    if (query.count(name) > 1) return invalid(fmt::format("`{}` is given twice", name));
  }
  return {};
}

Result<std::uint64_t> number(std::string_view name, std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) {
    return invalid(fmt::format("`{}` is \"{}\"; a number from 0 to {} was expected", name,
                               shortened(text), most));
  }
  return value;
}

Result<std::uint64_t> number(const Query& query, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most) {
  const auto found = query.find(name);
  if (found == query.end()) return otherwise;
  return number(name, found->second, most);
}

Status read_nothing(std::string_view body) {
  TANDEM_ASSIGN(const json ignored, parse_object(body, {}));
  return {};
}

Result<Submission> read_submission(std::string_view body) {
  constexpr std::string_view kKnown[] = {"job", "overrides", "priority", "base_directory"};
  TANDEM_ASSIGN(const json object, parse_object(body, kKnown));
  Submission submission;
  TANDEM_ASSIGN(submission.job_toml, text_field(object, "job"));
  if (submission.job_toml.empty())
    return invalid("`job` is missing; the text of a job file was expected");
  TANDEM_ASSIGN(submission.overrides, overrides_field(object));
  TANDEM_ASSIGN(const auto priority,
                integer_field(object, "priority", {-kMostPriority, kMostPriority}));
  submission.priority = static_cast<int>(priority.value_or(0));
  TANDEM_ASSIGN(submission.base_directory, text_field(object, "base_directory"));
  const std::string& directory = submission.base_directory;
  if (!directory.empty() &&
      (directory.front() != '/' || directory.find('\0') != std::string::npos)) {
    return invalid(fmt::format("`base_directory` is \"{}\"; an absolute path was expected",
                               shortened(directory)));
  }
  return submission;
}

Result<std::optional<std::int64_t>> read_resume(std::string_view body) {
  constexpr std::string_view kKnown[] = {"step"};
  TANDEM_ASSIGN(const json object, parse_object(body, kKnown));
  return integer_field(object, "step", {0, std::numeric_limits<std::int64_t>::max()});
}

Result<Resizing> read_resize(std::string_view body) {
  constexpr std::string_view kKnown[] = {"workers", "servers"};
  TANDEM_ASSIGN(const json object, parse_object(body, kKnown));
  Resizing wanted;
  TANDEM_ASSIGN(wanted.workers, integer_field(object, "workers", {1, kMostWorkers}));
  TANDEM_ASSIGN(wanted.servers, integer_field(object, "servers", {1, kMostServers}));
  if (!wanted.workers && !wanted.servers)
    return invalid("`workers` is missing; the number of workers or of `servers` was expected");
  return wanted;
}

bool is_job_id(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !text.empty() && text.size() <= kMostIdBytes && text.front() != '.' &&
         text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace tandem::web
