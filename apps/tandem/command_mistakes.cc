#include "command_mistakes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "job/schema.h"

namespace tandem::cli {
namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view meant = nearest(word, candidates);
  return meant.empty() ? std::string() : fmt::format("; did you mean `{}`?", meant);
}

// A key of the job file is set by its path and not by an option: --workers is cluster.workers=.
std::string suggested_key(std::string_view flag, const CLI::App& command) {
  if (command.get_option_no_throw("overrides") == nullptr) return "";
  std::string name(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::ranges::replace(name, '-', '_');
  const std::vector<job::Key>& keys = job::job_schema().keys();
  std::vector<std::string_view> leaves;
  for (const job::Key& key : keys) leaves.push_back(key.leaf());
  const std::string_view meant = nearest(name, leaves);
  if (meant.empty()) return "";
  const auto found = std::ranges::find(keys, meant, &job::Key::leaf);
  return fmt::format("; did you mean the job file's `{}=...`?", found->path);
}

Error wrong(std::string message, const CLI::App& command) {
  std::string name = command.get_name();
  for (const CLI::App* parent = command.get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    name = parent->get_name() + " " + name;
  }
  return Error(Code::kInvalidArgument, fmt::format("{}\nSee `{} --help`", message, name));
}

}  // namespace

Result<const CLI::App*> find_command(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  for (const std::string& word : arguments) {
    const std::vector<std::string> names = names_of_commands(*command);
    if (names.empty()) break;
    if (word.starts_with("-")) continue;
    if (std::ranges::find(names, word) == names.end()) {
      return wrong(fmt::format("unknown command `{}`{}", word, suggestion(word, names)), *command);
    }
    command = command->get_subcommand(word);
  }
  return command;
}

Error explain(const CLI::ParseError& error, const CLI::App& command,
              std::span<const std::string> arguments) {
  const int kind = error.get_exit_code();
  // A misspelt option also shows as something else that is missing.
  if (kind != static_cast<int>(CLI::ExitCodes::ExtrasError) &&
      kind != static_cast<int>(CLI::ExitCodes::RequiredError)) {
    return wrong(error.what(), command);
  }
  const std::vector<std::string> known = names_of_options(command);
  for (const std::string& word : arguments) {
    if (!word.starts_with("-") || word == "-" || word == "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    const bool is_short = !flag.starts_with("--");
    if (std::ranges::find(known, flag) != known.end() ||
        (is_short && command.get_option_no_throw(flag) != nullptr)) {
      continue;
    }
    std::string meant = suggestion(flag, known);
    if (meant.empty()) meant = suggested_key(flag, command);
    return wrong(fmt::format("unknown option `{}`{}", flag, meant), command);
  }
  if (const auto commands = command.get_subcommands({}); !commands.empty()) {
    std::string names;
    for (const CLI::App* each : commands) names += (names.empty() ? "" : ", ") + each->get_name();
    return wrong(fmt::format("say what to do: {}", names), command);
  }
  return wrong(error.what(), command);
}

}  // namespace tandem::cli
