#include "bench_ps_command_line.h"

#include "validators.h"

namespace tandem::cli {

void add_bench_ps(CLI::App& bench, BenchPsSlots& slots, Finish& finish) {
  CLI::App& command =
      *bench.add_subcommand("ps", "The parameter server's table of sparse rows: time and memory");
  BenchPsOptions& options = slots.options;
  command.add_option("--sparse-keys", options.sparse_keys, "Keys of a push, and of a pull")
      ->check(within(1, 1e9))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--rows", options.rows, "Rows of the table")
      ->check(within(1, 1e9))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--width", options.width, "Floats of a row")
      ->check(within(1, 65536))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", slots.json, "Print an object");
  command.footer(
      "Fills a table in this process, then pushes to and pulls from random rows of it on one "
      "thread, with\nsgd, in turn with a memcpy of as many bytes of keys and floats. Times are the "
      "best of five rounds, for\neach 16,384 keys by themselves. The memory is the most that was "
      "held while the table grew.\n\n"
      "Example:\n  tandem bench ps --sparse-keys 1000000 --rows 10000000 --width 16");
  finish[&command] = [&slots]() -> Result<Options> {
    slots.options.format = slots.json ? Format::kJson : Format::kText;
    return Options(slots.options);
  };
}

}  // namespace tandem::cli
