#include "model/libraries.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <cblas.h>
#include <fmt/format.h>
#include <omp.h>
#include <torch/version.h>

#include <dnnl.hpp>

namespace tandem::model {
namespace {

// libtorch tells its instruction set only inside a longer text.
std::string aten_capability() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const auto begin = config.find(kLabel);
  if (begin == std::string::npos) return "unknown";
  const auto value = begin + kLabel.size();
  return config.substr(value, config.find('\n', value) - value);
}

}  // namespace

void set_kernel_threads(int threads) {
  at::set_num_threads(threads);
  omp_set_num_threads(threads);
  openblas_set_num_threads(threads);
}

std::vector<std::pair<std::string, std::string>> library_facts() {
  const dnnl_version_t* onednn = dnnl_version();
  return {
      {"torch", TORCH_VERSION},
      {"blas", openblas_get_config()},
      {"blas_core", openblas_get_corename()},
      {"onednn", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
      {"aten", aten_capability()},
  };
}

}  // namespace tandem::model
