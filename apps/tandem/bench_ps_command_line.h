// The sub-command `bench ps`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cluster_command_line.h"
#include "options.h"

namespace tandem::cli {

// Its options, while CLI11 fills them. Addresses must not change.
struct BenchPsSlots {
  BenchPsOptions options;
  std::string role;
  bool json = false;
};

void add_bench_ps(CLI::App& bench, BenchPsSlots& slots, Finish& finish);

}  // namespace tandem::cli
