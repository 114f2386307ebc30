#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "worker_command.h"

namespace tandem::cli {
namespace {

Error become(const PredictOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const auto program, around.find_worker(options.worker_binary));
  TANDEM_ASSIGN(const ModelPlace model, find_model(options.model, {}));
  for (const std::string& input : options.inputs) {
    std::error_code error;
    if (!std::filesystem::exists(input, error)) {
      return Error(
          Code::kNotFound,
          fmt::format("{} does not exist; give a file of samples (IDX, CSV or npy)", input));
    }
  }
  std::vector<std::string> arguments = {"predict", "--model=" + model.file.string(),
                                        fmt::format("--top={}", options.top)};
  for (const std::string& input : options.inputs) arguments.push_back("--input=" + input);
  if (options.prompt.has_value()) {
    if (options.prompt->empty()) {
      return Error(Code::kInvalidArgument, "the prompt is empty; give at least one character");
    }
    arguments.push_back("--prompt=" + *options.prompt);
    arguments.push_back(fmt::format("--length={}", options.length));
    arguments.push_back(fmt::format("--temperature={}", options.temperature));
    arguments.push_back(fmt::format("--seed={}", options.seed));
  }
  if (options.format == Format::kJson) arguments.emplace_back("--json");
  warn_if_unchecked(model.file, around);
  return become_worker(program, arguments, model.threads, around);
}

}  // namespace

int predict(const PredictOptions& options, const Surroundings& around) {
  const Error error = become(options, around);
  print_error(around, error);
  return exit_code(error.code());
}

}  // namespace tandem::cli
