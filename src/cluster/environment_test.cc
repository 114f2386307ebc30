#include "cluster/environment.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::cluster {
namespace {

const Kernels kKernels{"SkylakeX", "avx512", "AVX512_CORE"};

bool has(const std::vector<std::string>& environment, std::string_view entry) {
  return std::ranges::find(environment, entry) != environment.end();
}

TEST(WorkerEnvironment, NamesKernelsAndThreads) {
  const auto environment = worker_environment({"HOME=/home/x"}, kKernels, 1);
  for (const char* entry :
       {"HOME=/home/x", "OPENBLAS_CORETYPE=SkylakeX", "ATEN_CPU_CAPABILITY=avx512",
        "ONEDNN_MAX_CPU_ISA=AVX512_CORE", "DNNL_MAX_CPU_ISA=AVX512_CORE", "OMP_NUM_THREADS=1",
        "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"}) {
    EXPECT_TRUE(has(environment, entry)) << entry;
  }
}

TEST(WorkerEnvironment, ReplacesWhatTheUserHad) {
  const auto environment =
      worker_environment({"OMP_NUM_THREADS=64", "OMP_NUM_THREADS_X=1"}, kKernels, 2);
  EXPECT_FALSE(has(environment, "OMP_NUM_THREADS=64"));
  EXPECT_TRUE(has(environment, "OMP_NUM_THREADS=2"));
  EXPECT_TRUE(has(environment, "OMP_NUM_THREADS_X=1"));
}

TEST(WorkerEnvironment, LeavesTheWaitPolicyAloneForOneThread) {
  EXPECT_TRUE(
      has(worker_environment({"OMP_WAIT_POLICY=active"}, kKernels, 1), "OMP_WAIT_POLICY=active"));
  EXPECT_TRUE(
      has(worker_environment({"OMP_WAIT_POLICY=active"}, kKernels, 2), "OMP_WAIT_POLICY=passive"));
}

}  // namespace
}  // namespace tandem::cluster
