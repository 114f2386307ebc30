#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem {
namespace {

#if defined(__x86_64__)
std::string brand() {
  unsigned words[12] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* at = words + 4 * leaf;
    if (__get_cpuid(0x80000002U + leaf, at, at + 1, at + 2, at + 3) == 0) return {};
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name(text);
  const auto first = name.find_first_not_of(' ');
  const auto last = name.find_last_not_of(' ');
  return first == std::string::npos ? std::string() : name.substr(first, last - first + 1);
}
#endif

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

Cpu detect_cpu() {
  Cpu cpu;
  cpu.cores = usable_cores();
#if defined(__x86_64__)
  cpu.name = brand();
  // The compiler's tests also ask the operating system whether it saves the wide registers.
  cpu.avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  cpu.avx512 = cpu.avx2 && __builtin_cpu_supports("avx512f") != 0 &&
               __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
               __builtin_cpu_supports("avx512vl") != 0;
#endif
  return cpu;
}

Kernels best_kernels(const Cpu& cpu) {
  if (cpu.avx512) return {"SkylakeX", "avx512", "AVX512_CORE"};
  if (cpu.avx2) return {"Haswell", "avx2", "AVX2"};
  return {"Nehalem", "default", "SSE41"};
}

}  // namespace tandem
