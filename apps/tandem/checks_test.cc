#include "checks.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(Checks, WarnsOfAProcessorWithoutAvx2) {
  EXPECT_EQ(check_cpu({"old", 1, false, false}).verdict, Verdict::kWarn);
  EXPECT_EQ(check_cpu({"new", 8, true, true}).verdict, Verdict::kOk);
}

TEST(Checks, WarnsWhenBlasUsesOtherKernelsThanAskedFor) {
  const Kernels kernels{"SkylakeX", "avx512", "AVX512_CORE"};
  EXPECT_EQ(check_blas(kernels, {{"blas", "OpenBLAS 0.3.21"}, {"blas_core", "SKYLAKEX"}}).verdict,
            Verdict::kOk);
  EXPECT_EQ(check_blas(kernels, {{"blas", "OpenBLAS 0.3.21"}, {"blas_core", "Prescott"}}).verdict,
            Verdict::kWarn);
  EXPECT_EQ(check_blas(kernels, {}).verdict, Verdict::kWarn);
}

TEST(Checks, BlasShowsItsVersionAndNotHowItWasBuilt) {
  const Kernels kernels{"Haswell", "avx2", "AVX2"};
  EXPECT_EQ(check_blas(kernels, {{"blas", "OpenBLAS 0.3.21 NO_AFFINITY Zen MAX_THREADS=64"},
                                 {"blas_core", "Haswell"}})
                .finding,
            "OpenBLAS 0.3.21, kernels for Haswell");
  EXPECT_EQ(check_blas(kernels, {{"blas", "OpenBLAS"}}).finding, "OpenBLAS");
}

TEST(Checks, ThreadsNameTheKeyThatChangesThem) {
  EXPECT_NE(check_threads({"new", 8, true, true}).finding.find("train.threads=8"),
            std::string::npos);
  const std::string one = check_threads({"old", 1, false, false}).finding;
  EXPECT_NE(one.find("1 core to use"), std::string::npos) << one;
  EXPECT_EQ(one.find("train.threads="), std::string::npos) << one;
}

TEST(Checks, OfThisMachineHaveFindings) {
  for (const Check& check : {check_memory(), check_disk(), check_shared_memory(),
                             check_open_files(), check_loopback()}) {
    EXPECT_FALSE(check.finding.empty()) << check.name;
    EXPECT_EQ(check.verdict == Verdict::kOk, check.advice.empty()) << check.name;
  }
}

}  // namespace
}  // namespace tandem::cli
