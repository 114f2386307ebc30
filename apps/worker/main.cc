// tandem-worker: the program that computes. Started by `tandem`; see apps/tandem/.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>

#include "base/text.h"
#include "commands.h"

namespace tandem::worker {
namespace {

// What the node says of the other workers.
void add_group(CLI::App& command, GroupOptions& group) {
  command.add_option("--rank", group.join.rank);
  command.add_option("--workers", group.join.size);
  command.add_option("--engine", group.join.engine);
  command.add_option("--arena", group.arena);
  command.add_option("--store-host", group.join.address);
  command.add_option("--store-port", group.join.port);
  command.add_flag("--store-served", group.join.served);
  command.add_option("--join-timeout", group.patience_s);
}

// Adds the sub-commands; the chosen one leaves how it ended in `status`.
void add_train(CLI::App& app, Status& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train the job of a run directory");
  command->add_option("--run", options->run_directory)->required();
  command->add_option("--base-directory", options->base_directory)->required();
  command->add_option("--control", options->control)->required();
  command->add_option("--resume", options->resume);
  command->add_flag("--placed-by-node", options->placed_by_node);
  command->add_option("--number", options->number);
  command->add_option("--tls-cert", options->tls.cert_file);
  command->add_option("--tls-key", options->tls.key_file);
  command->add_option("--tls-ca", options->tls.ca_file);
  add_group(*command, options->group);
  const CLI::Option* dry_run = command->add_flag("--dry-run");
  command->callback([options, dry_run, &status] {
    if (dry_run->count() > 0) options->rehearsal = train::Rehearsal::kOneStep;
    status = train(*options);
  });
}

void add_eval(CLI::App& app, Status& status) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "Evaluate a model");
  command->add_option("--model", options->model)->required();
  command->add_option("--base-directory", options->base_directory);
  command->add_option("--part", options->part);
  command->add_option("--override", options->overrides);
  const CLI::Option* json = command->add_flag("--json");
  command->callback([options, json, &status] {
    if (json->count() > 0) options->format = Format::kJson;
    status = eval(*options);
  });
}

void add_predict(CLI::App& app, Status& status) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand("predict", "Predict with a model");
  command->add_option("--model", options->model)->required();
  command->add_option("--input", options->inputs);
  command->add_option("--top", options->top);
  const CLI::Option* prompt = command->add_option("--prompt", options->prompt);
  command->add_option("--length", options->generate.length);
  command->add_option("--temperature", options->generate.temperature);
  command->add_option("--seed", options->generate.seed);
  const CLI::Option* json = command->add_flag("--json");
  command->callback([options, prompt, json, &status] {
    options->has_prompt = prompt->count() > 0;
    if (json->count() > 0) options->format = Format::kJson;
    status = predict(*options);
  });
}

void add_allreduce(CLI::App& app, Status& status) {
  auto options = std::make_shared<AllReduceOptions>();
  CLI::App* command = app.add_subcommand("allreduce", "Measure all-reduces, one rank of several");
  add_group(*command, options->group);
  command->add_option("--bytes", options->bytes)->delimiter(',')->required();
  command->add_option("--order", options->order);
  command->callback([options, &status] { status = allreduce(*options); });
}

// What was printed must have arrived: a full disk or a closed pipe is not success.
Status flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return system_error("write the output", errno == 0 ? ENOSPC : errno);
}

// Each sparse table takes several files while a checkpoint is made, and each neighbour a socket.
void allow_many_files() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

int run(int argc, char** argv) {
  CLI::App app("Computes for tandem; start `tandem` instead.", "tandem-worker");
  app.require_subcommand(1);
  Status status;
  add_train(app, status);
  add_eval(app, status);
  add_predict(app, status);
  add_allreduce(app, status);
  app.add_subcommand("info", "What the libraries say of themselves, as JSON")->callback([&] {
    status = info();
  });
  CLI11_PARSE(app, argc, argv);
  if (status.ok()) status = flush_output();
  if (status.ok()) return 0;
  // A train error has gone to the node, which shows it; this copy is for the log.
  std::FILE* stream = app.got_subcommand("train") ? stdout : stderr;
  fmt::print(stream, "error: {}\n", without_controls(status.error().message(), "\n\t"));
  return exit_code(status.error().code());
}

int main(int argc, char** argv) {
  allow_many_files();
  try {
    return run(argc, argv);
  } catch (const std::exception& exception) {
    // fmt::print throws when it cannot write.
    std::fprintf(stderr, "error: %s\n", exception.what());
    const bool full = std::ferror(stdout) != 0;
    return exit_code(full ? Code::kOutOfSpace : Code::kInternal);
  }
}

}  // namespace
}  // namespace tandem::worker

int main(int argc, char** argv) {
  const int code = tandem::worker::main(argc, argv);
  // Everything is written and every peer has been told. What is left is libtorch, which takes down
  // its tables of operators for 60 ms; the kernel frees them at once.
  std::fflush(nullptr);
  ::_exit(code);
}
