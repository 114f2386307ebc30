// The light program: everything but training itself, without libtorch, so that it starts at once.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "surroundings.h"

namespace tandem::cli {
namespace {

struct Dispatch {
  const Surroundings& around;

  int operator()(const HelpOptions& options) const {
    print_out(options.text);
    return 0;
  }
  int operator()(const TrainOptions& options) const { return train(options, around); }
  int operator()(const EvalOptions& options) const { return eval(options, around); }
  int operator()(const PredictOptions& options) const { return predict(options, around); }
  int operator()(const ModelSummaryOptions& options) const {
    return model_summary(options, around);
  }
  int operator()(const ModelVerifyOptions& options) const { return model_verify(options, around); }
  int operator()(const ModelExportOptions& options) const { return model_export(options, around); }
  int operator()(const CheckpointOptions& options) const { return checkpoint(options, around); }
  int operator()(const DoctorOptions& options) const { return doctor(options, around); }
  int operator()(const BenchAllReduceOptions& options) const {
    return bench_allreduce(options, around);
  }
  int operator()(const BenchCheckpointOptions& options) const {
    return bench_checkpoint(options, around);
  }
  int operator()(const BenchPsOptions& options) const { return bench_ps(options, around); }
  int operator()(const MasterOptions& options) const { return master(options, around); }
  int operator()(const NodeOptions& options) const { return node(options, around); }
  int operator()(const ClientOptions& options) const { return client(options, around); }
  int operator()(const ServerOptions& options) const { return server(options, around); }
  int operator()(const JobReferenceOptions&) const { return job_reference(); }
};

// Whoever closed one of the standard descriptors does not want it; a file that got its number would
// be written into.
void fill_standard_descriptors() {
  int number = 0;
  do {
    number = ::open("/dev/null", O_RDWR);
  } while (number >= 0 && number <= STDERR_FILENO);
  if (number > STDERR_FILENO) ::close(number);
}

int run(const std::vector<std::string>& arguments) {
  fill_standard_descriptors();
  // A file that may not grow is an error to handle, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  const Surroundings around = look_around(TANDEM_VERSION);
  const Result<Options> options = parse_command_line(arguments, around.version);
  if (!options.ok()) {
    print_error(around, options.error());
    return exit_code(options.error().code());
  }
  return std::visit(Dispatch{around}, *options);
}

}  // namespace
}  // namespace tandem::cli

int main(int argc, char** argv) {
  try {
    const int code = tandem::cli::run({argv + 1, argv + argc});
    // What a full disk refused shows here at the latest. A reader that has seen enough is no
    // failure.
    errno = 0;
    if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && errno != EPIPE && code == 0) {
      std::fprintf(stderr, "error: standard output could not be written\n");
      return tandem::exit_code(tandem::Code::kOutOfSpace);
    }
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return tandem::exit_code(tandem::Code::kInternal);
  }
}
