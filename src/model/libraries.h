// The libraries behind the kernels: their threads, and what they say of themselves.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::model {

// For the whole process: libtorch, OpenMP (oneDNN) and BLAS.
void set_kernel_threads(int threads);

// Name and version or kernel set of each library, for `tandem doctor`.
std::vector<std::pair<std::string, std::string>> library_facts();

}  // namespace tandem::model
