#include "bench_ps_command_line.h"

#include <algorithm>
#include <map>

#include "validators.h"

namespace tandem::cli {
namespace {

constexpr const char* kFooter =
    "A worker pushes gradients to servers, which add them up and update by sgd, and pulls the new "
    "parameters.\nAll are processes of their own; over shm they share memory. In turn with it are "
    "timed echoes of as many\nbytes over a blocking TCP connection, which send all before any "
    "comes "
    "back, or both at the same time, and a\nmemcpy of them. Times are the median of the best of "
    "seven rounds; GB/s count the bytes both ways, CPU seconds\nthose of workers and servers.\n\n"
    "The sparse table is filled in this process, then pushed to and pulled from at random rows on "
    "one thread,\nwith sgd, in turn with a memcpy of as many bytes of keys and floats. Times are "
    "the best of five rounds, for\neach 16,384 keys by themselves. The memory is the most that was "
    "held while the table grew.\n\n"
    "Options of one kind alone measure only that.\n\n"
    "Examples:\n"
    "  tandem bench ps --transport shm --bytes 32KiB,4MiB --workers 2\n"
    "  tandem bench ps --sparse-keys 1000000 --rows 10000000 --width 16";

using Group = std::vector<const CLI::Option*>;

Group add_dense(CLI::App& command, BenchPsOptions& options) {
  return {command.add_option("--transport", options.transports, "shm, tcp")
              ->delimiter(',')
              ->check(one_of({"shm", "tcp"}))
              ->type_name("NAME,...")
              ->group("Dense")
              ->capture_default_str(),
          command
              .add_option("--bytes", options.bytes,
                          "Sizes of what is pushed and pulled, such as 1KiB,4MiB")
              ->delimiter(',')
              ->transform(as_bytes())
              ->check(within(4, 1e12))
              ->type_name("SIZE,...")
              ->group("Dense"),
          command.add_option("--workers", options.workers, "Processes that push and pull")
              ->check(within(1, 256))
              ->type_name("N")
              ->group("Dense")
              ->capture_default_str(),
          command.add_option("--servers", options.servers, "Processes that hold the parameters")
              ->check(within(1, 256))
              ->type_name("N")
              ->group("Dense")
              ->capture_default_str()};
}

Group add_sparse(CLI::App& command, BenchPsOptions& options) {
  return {command.add_option("--sparse-keys", options.sparse_keys, "Keys of a push, and of a pull")
              ->check(within(1, 1e9))
              ->type_name("N")
              ->group("Sparse")
              ->capture_default_str(),
          command.add_option("--rows", options.rows, "Rows of the table")
              ->check(within(1, 1e9))
              ->type_name("N")
              ->group("Sparse")
              ->capture_default_str(),
          command.add_option("--width", options.width, "Floats of a row")
              ->check(within(1, 65536))
              ->type_name("N")
              ->group("Sparse")
              ->capture_default_str()};
}

BenchPsRole role_of(const std::string& name) {
  if (name == "measure") return BenchPsRole::kMeasures;
  if (name == "server") return BenchPsRole::kServes;
  if (name == "worker") return BenchPsRole::kWorks;
  return name == "echo" ? BenchPsRole::kEchoes : BenchPsRole::kAsked;
}

}  // namespace

void add_bench_ps(CLI::App& bench, BenchPsSlots& slots, Finish& finish) {
  CLI::App& command = *bench.add_subcommand(
      "ps", "The parameter server: pushes and pulls between processes, and its sparse table");
  const Group dense = add_dense(command, slots.options);
  const Group sparse = add_sparse(command, slots.options);
  add_tls(command, slots.options.tls);
  command.add_flag("--json", slots.json, "Print an object");
  // Of the processes that this one starts to measure.
  command.add_option("--role", slots.role)
      ->check(one_of({"measure", "server", "worker", "echo"}))
      ->group("");
  command.add_option("--rank", slots.options.rank)->check(within(0, 255))->group("");
  command.add_option("--ports", slots.options.ports)
      ->delimiter(',')
      ->check(within(1, 65535))
      ->group("");
  command.footer(kFooter);
  finish[&command] = [&slots, dense, sparse]() -> Result<Options> {
    const auto given = [](const CLI::Option* option) { return option->count() > 0; };
    BenchPsOptions& options = slots.options;
    const bool any_dense = std::any_of(dense.begin(), dense.end(), given);
    const bool any_sparse = std::any_of(sparse.begin(), sparse.end(), given);
    options.dense = any_dense || !any_sparse;
    options.sparse = any_sparse || !any_dense;
    options.role = role_of(slots.role);
    options.format = slots.json ? Format::kJson : Format::kText;
    return Options(options);
  };
}

}  // namespace tandem::cli
