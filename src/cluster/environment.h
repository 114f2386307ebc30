// The environment of a worker: ours, with the kernel set and the number of threads of the job in
// the variables from which OpenBLAS, ATen, oneDNN and OpenMP read them. They must be there before
// the libraries load, which is why the light binary sets them for the worker. What the user had in
// these variables is replaced: the kernel set belongs to the job and is recorded in its report.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace tandem::cluster {

// `inherited` and the result are lists of NAME=value.
std::vector<std::string> worker_environment(std::vector<std::string> inherited,
                                            const Kernels& kernels, std::int64_t threads);

}  // namespace tandem::cluster
