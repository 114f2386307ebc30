#include <fmt/format.h>

#include "commands.h"
#include "job_source.h"
#include "worker_command.h"

namespace tandem::cli {
namespace {

Error become(const EvalOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const auto program, around.find_worker(options.worker_binary));
  TANDEM_ASSIGN(const ModelPlace model, find_model(options.model, options.overrides));
  std::vector<std::string> arguments = {"eval", "--model=" + model.file.string(),
                                        "--base-directory=" + model.base_directory.string(),
                                        "--part=" + options.part};
  for (const std::string& text : with_absolute_paths(options.overrides))
    arguments.push_back("--override=" + text);
  if (options.format == Format::kJson) arguments.emplace_back("--json");
  warn_if_unchecked(model.file, around);
  return become_worker(program, arguments, model.threads, around);
}

}  // namespace

int eval(const EvalOptions& options, const Surroundings& around) {
  const Error error = become(options, around);
  print_error(around, error);
  return exit_code(error.code());
}

}  // namespace tandem::cli
