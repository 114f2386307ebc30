// What this machine's processor can do, from CPUID, and which kernels the libraries should be told
// to use for it. OpenBLAS 0.3.21 does not know newer Intel cores and falls back to its slowest
// kernels, so Tandem names the core type itself, before the library loads.
#pragma once

#include <string>

namespace tandem {

struct Cpu {
  std::string name;  // "AMD EPYC 7763", or "" when the processor does not say.
  int cores = 1;     // That this process may run on.
  bool avx2 = false;
  bool avx512 = false;  // F, DQ, BW and VL together: what the kernels need.
};

// Asks the processor. Cheap; the answer does not change while a process runs.
Cpu detect_cpu();

// The kernel set of a job: the strings that the libraries read from the environment. It changes the
// bits of a run, so it is chosen once per job and recorded in the report.
struct Kernels {
  std::string blas_core;  // OPENBLAS_CORETYPE: "SkylakeX", "Haswell" or "Nehalem".
  std::string aten;       // ATEN_CPU_CAPABILITY: "avx512", "avx2" or "default".
  std::string onednn;     // ONEDNN_MAX_CPU_ISA: "AVX512_CORE", "AVX2" or "SSE41".

  friend bool operator==(const Kernels&, const Kernels&) = default;
};

// The fastest kernels that `cpu` can run.
Kernels best_kernels(const Cpu& cpu);

}  // namespace tandem
