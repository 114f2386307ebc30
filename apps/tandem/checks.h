// What `tandem doctor` looks at: each check is one line, good or not, with what to do about it.
// They read the machine but change nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"

namespace tandem::cli {

enum class Verdict : std::uint8_t { kOk, kWarn, kFail };

// "ok", "warn", "fail".
std::string_view to_string(Verdict verdict);

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string finding;
  std::string advice;  // What to do; empty when all is well.
};

Check check_cpu(const Cpu& cpu);
Check check_kernels(const Kernels& kernels);
// How many threads a worker computes with by default, and how many cores there are.
Check check_threads(const Cpu& cpu);
// `facts` are what the worker says of its libraries.
Check check_blas(const Kernels& kernels, const std::map<std::string, std::string>& facts);
Check check_memory();
// Free space where runs are written.
Check check_disk();
Check check_shared_memory();
Check check_open_files();
Check check_loopback();

}  // namespace tandem::cli
