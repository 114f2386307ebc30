#include "cluster/environment.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tandem::cluster {
namespace {

// The name of a NAME=value entry.
std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

}  // namespace

std::vector<std::string> worker_environment(std::vector<std::string> inherited,
                                            const Kernels& kernels, std::int64_t threads) {
  const std::string count = std::to_string(threads);
  std::vector<std::pair<std::string_view, std::string>> ours = {
      {"OPENBLAS_CORETYPE", kernels.blas_core},
      {"ATEN_CPU_CAPABILITY", kernels.aten},
      {"ONEDNN_MAX_CPU_ISA", kernels.onednn},
      {"DNNL_MAX_CPU_ISA",
       kernels.onednn},  // oneDNN's older name for the same; some builds know only this one.
      {"OMP_NUM_THREADS", count},
      {"OPENBLAS_NUM_THREADS", count},
      {"MKL_NUM_THREADS", count},
  };
  // Threads that spin while they wait take the processor from the other workers of a host.
  if (threads > 1) ours.emplace_back("OMP_WAIT_POLICY", "passive");

  const auto replaced = [&ours](const std::string& entry) {
    return std::ranges::any_of(
        ours, [&](const auto& variable) { return variable.first == name_of(entry); });
  };
  std::erase_if(inherited, replaced);
  for (const auto& [name, value] : ours) inherited.push_back(std::string(name) + "=" + value);
  return inherited;
}

}  // namespace tandem::cluster
