#include "base/cpu.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Cpu, HasAtLeastOneCore) {
  const Cpu cpu = detect_cpu();
  EXPECT_GE(cpu.cores, 1);
  EXPECT_TRUE(cpu.avx2 || !cpu.avx512);
}

TEST(Cpu, GetsTheFastestKernelsThatItCanRun) {
  Cpu cpu;
  EXPECT_EQ(best_kernels(cpu), (Kernels{"Nehalem", "default", "SSE41"}));
  cpu.avx2 = true;
  EXPECT_EQ(best_kernels(cpu), (Kernels{"Haswell", "avx2", "AVX2"}));
  cpu.avx512 = true;
  EXPECT_EQ(best_kernels(cpu), (Kernels{"SkylakeX", "avx512", "AVX512_CORE"}));
}

}  // namespace
}  // namespace tandem
