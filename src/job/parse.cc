#include "job/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "job/document.h"
#include "job/override.h"
#include "job/read.h"
#include "job/rules.h"
#include "job/schema.h"

namespace tandem::job {
namespace {

// A run directory's name from the file's: "jobs/my digits.toml" gives "my-digits".
std::string name_from(std::string_view file_name) {
  std::string name = std::filesystem::path(file_name).stem().string();
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    if (!plain) c = '-';
  }
  constexpr std::size_t kLongest = 100;
  name.resize(std::min(name.size(), kLongest));
  const std::size_t first = name.find_first_not_of(".-"), last = name.find_last_not_of(".-");
  return first == std::string::npos ? "job" : name.substr(first, last - first + 1);
}

// A list of layers says by itself which kind of model it is.
void infer_kind(Value& root) {
  Entry* model = root.find("model");
  if (model == nullptr || model->value.find("kind") != nullptr) return;
  const Entry* layers = model->value.find("layers");
  if (layers == nullptr) return;
  Value kind;
  kind.type = Type::kString;
  kind.place = layers->key_place;
  kind.string = "layers";
  model->value.entries.push_back({"kind", kind.place, kind});
}

Error error_of(const Mistakes& mistakes, const Texts& texts) {
  return Error(Code::kInvalidArgument, mistakes.render(texts));
}

}  // namespace

Result<ParsedJob> parse_located(std::string_view toml_text, std::string_view file_name,
                                std::span<const std::string> overrides) {
  if (toml_text.size() > kMostFileBytes) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} is too large for a job file: {} bytes, at most {} are read",
                             file_name, toml_text.size(), kMostFileBytes));
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (toml_text.starts_with(kByteOrderMark)) toml_text.remove_prefix(kByteOrderMark.size());
  ParsedJob parsed{.job = {},
                   .texts = {std::string(file_name),
                             std::string(toml_text),
                             {overrides.begin(), overrides.end()}},
                   .locations = {}};
  Findings findings;
  std::optional<Value> root = parse_document(toml_text, Place::kFile, findings.mistakes);
  if (!root) return error_of(findings.mistakes, parsed.texts);
  const Schema& schema = job_schema();
  expand_words(schema, *root);
  std::int32_t text_number = Place::kFile;
  for (const std::string& text : overrides) {
    apply_override(schema, text, ++text_number, *root, findings.mistakes);
  }
  infer_kind(*root);
  parsed.job.name = name_from(file_name);
  read_record(schema, *root, "", &parsed.job, findings);
  check_rules(parsed.job, findings);
  if (!findings.mistakes.empty()) return error_of(findings.mistakes, parsed.texts);
  // The resolved job names its lanes: run again with another number of workers, it still gives the
  // same bits.
  parsed.job.cluster.lanes = parsed.job.lanes();
  parsed.locations = std::move(findings.locations);
  return parsed;
}

Result<Job> parse(std::string_view toml_text, std::string_view file_name,
                  std::span<const std::string> overrides) {
  TANDEM_ASSIGN(ParsedJob parsed, parse_located(toml_text, file_name, overrides));
  return std::move(parsed.job);
}

std::string point_at(const ParsedJob& parsed, std::string_view key_path, std::string_view message,
                     std::string_view help) {
  return render(parsed.texts,
                {parsed.locations.value(key_path), std::string(message), std::string(help)});
}

}  // namespace tandem::job
