// The source `text`: windows of characters. Parts are contiguous pieces of the text (training
// first, then validation, then test), because neighbouring windows share their sentences. The
// vocabulary is that of the whole text, so no part has a character that the model does not know.
#include <fmt/format.h>

#include "base/text.h"
#include "base/utf8.h"
#include "data/characters.h"
#include "data/limits.h"
#include "data/memory.h"
#include "data/source_kinds.h"

namespace tandem::data {
namespace {

using Tokens = std::shared_ptr<const std::vector<std::uint16_t>>;

Status check_config(const SourceConfig& config) {
  if (config.context < 1 || config.context > kMostContext) {
    return Error(Code::kInvalidArgument,
                 fmt::format("data.context = {} must be from 1 to {} characters", config.context,
                             kMostContext));
  }
  if (config.stride >= 0) return {};
  return Error(
      Code::kInvalidArgument,
      fmt::format("data.stride = {} must be 0 (the context) or more characters", config.stride));
}

Result<Tokens> encode_file(std::string_view text, const Spec& spec,
                           const std::filesystem::path& path) {
  auto tokens = encode_text(text, spec.class_names);
  if (!tokens.ok()) return std::move(tokens).error().within(path.string());
  return std::make_shared<const std::vector<std::uint16_t>>(std::move(tokens).value());
}

Spec make_spec(std::int64_t context, std::vector<std::string> vocabulary) {
  Spec spec;
  spec.input = Input::kTokens;
  spec.shape = {context};
  spec.target = Target::kClass;
  spec.classes = static_cast<std::int64_t>(vocabulary.size());
  spec.targets_per_sample = context;
  spec.class_names = std::move(vocabulary);
  return spec;
}

Error too_short(const std::filesystem::path& path, std::string_view what, std::int64_t characters,
                std::int64_t context) {
  return Error(
      Code::kInvalidArgument,
      fmt::format("{}: the {} has {} characters, too few for one sample of {} and the character "
                  "after it; use a longer text or a smaller data.context",
                  path.string(), what, with_commas(characters), context));
}

std::int64_t stride_of(const SourceConfig& config) {
  return config.stride > 0 ? config.stride : config.context;
}

Result<std::vector<std::string>> learn_files(std::string_view text,
                                             const std::filesystem::path& path,
                                             std::string_view test,
                                             const std::filesystem::path& test_path) {
  // One after the other first, so that an error names its file.
  for (const auto& [content, name] : {std::pair(text, &path), std::pair(test, &test_path)}) {
    if (const std::size_t bad = first_not_utf8(content); bad != content.size()) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{}: the text is not UTF-8 at byte {}; convert the file to UTF-8",
                               name->string(), bad));
    }
  }
  const std::string_view texts[] = {text, test};
  auto vocabulary = learn_vocabulary(texts);
  if (!vocabulary.ok()) return std::move(vocabulary).error().within(path.string());
  return vocabulary;
}

}  // namespace

Result<Parts> load_text(const SourceConfig& config, const std::filesystem::path& directory) {
  TANDEM_TRY(check_config(config));
  TANDEM_ASSIGN(const auto path, required_path("path", config.path, config, directory));
  TANDEM_ASSIGN(const std::string content, read_content(path));
  if (without_mark(content).empty())
    return Error(Code::kInvalidArgument, fmt::format("{}: the file is empty", path.string()));
  const bool has_test = has_own_test(config);
  const auto test_path = directory / config.test_path;
  std::string test_content;
  if (has_test) {
    TANDEM_ASSIGN(test_content, read_content(test_path));
  }
  const std::string_view text = without_mark(content);
  const std::string_view test_text = without_mark(test_content);
  TANDEM_ASSIGN(auto vocabulary, learn_files(text, path, test_text, test_path));
  const Spec spec = make_spec(config.context, std::move(vocabulary));
  TANDEM_ASSIGN(const Tokens tokens, encode_file(text, spec, path));
  TANDEM_ASSIGN(const Tokens test_tokens,
                has_test ? encode_file(test_text, spec, test_path) : tokens);

  const auto characters = static_cast<std::int64_t>(tokens->size());
  const std::int64_t stride = stride_of(config);
  auto counts = count_parts(characters, {config.validation, has_test ? 0 : config.test});
  if (!counts.ok()) return std::move(counts).error().within(path.string());
  const TextRange train{0, counts->train};
  const TextRange validation{train.last, train.last + counts->validation};
  const TextRange test = has_test ? TextRange{0, static_cast<std::int64_t>(test_tokens->size())}
                                  : TextRange{validation.last, characters};
  if (WindowSet::count(train, config.context, stride) == 0)
    return too_short(path, "training part", train.last, config.context);
  if (has_test && WindowSet::count(test, config.context, stride) == 0)
    return too_short(test_path, "text", test.last, config.context);
  Parts parts;
  parts.spec = spec;
  parts.train = std::make_shared<const WindowSet>(spec, tokens, train, stride);
  parts.validation = std::make_shared<const WindowSet>(spec, tokens, validation, stride);
  parts.test = std::make_shared<const WindowSet>(spec, test_tokens, test, stride);
  return parts;
}

Result<std::shared_ptr<const Dataset>> load_test_text(const SourceConfig& config,
                                                      const std::filesystem::path& directory,
                                                      const Spec& spec) {
  TANDEM_TRY(check_config(config));
  if (config.context != spec.shape[0]) {
    return Error(Code::kInvalidArgument,
                 fmt::format("data.context = {} does not fit the model, which was trained on {} "
                             "characters a sample",
                             config.context, spec.shape[0]));
  }
  const auto path = directory / config.test_path;
  TANDEM_ASSIGN(const std::string content, read_content(path));
  TANDEM_ASSIGN(const Tokens tokens, encode_file(without_mark(content), spec, path));
  const TextRange all{0, static_cast<std::int64_t>(tokens->size())};
  if (WindowSet::count(all, config.context, stride_of(config)) == 0)
    return too_short(path, "text", all.last, config.context);
  return std::shared_ptr<const Dataset>(
      std::make_shared<const WindowSet>(spec, tokens, all, stride_of(config)));
}

}  // namespace tandem::data
