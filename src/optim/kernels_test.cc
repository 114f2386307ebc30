// Runs each optimizer's loop compiled for each instruction set that this machine has, and compares
// the bits with those of the same loop kept from being vectorised.
#include "optim/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"

namespace tandem::optim::kernels {
namespace {

struct Arrays {
  float* weights;
  const float* gradients;
  float* first;
  float* second;
};

constexpr Penalty kPenalty{0.7F, 0.01F, 0.1F};
constexpr AdamFactors kFactors{0.999F, 0.9F, 0.1F, 0.999F, 0.001F, 0.04F, 1e-8F, 0.01F};

[[gnu::always_inline]] inline bool run_all(int kernel, const Arrays& a, std::size_t count) {
  switch (kernel) {
    case 0:
      return sgd(a.weights, a.gradients, count, kPenalty, 0.05F);
    case 1:
      return sgd_momentum(a.weights, a.gradients, a.first, count, kPenalty, 0.05F, 0.9F);
    case 2:
      return sgd_nesterov(a.weights, a.gradients, a.first, count, kPenalty, 0.05F, 0.9F);
    case 3:
      return adam(a.weights, a.gradients, a.first, a.second, count, kPenalty, kFactors);
    default:
      return adagrad(a.weights, a.gradients, a.second, count, kPenalty, 0.05F, 1e-8F);
  }
}
constexpr int kKernels = 5;

using Run = void (*)(int kernel, const Arrays& arrays, std::size_t count);

void run_default(int kernel, const Arrays& arrays, std::size_t count) {
  run_all(kernel, arrays, count);
}

// One element at a time, behind a barrier that the vectoriser cannot look through.
void run_scalar(int kernel, const Arrays& arrays, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    run_all(kernel, {arrays.weights + i, arrays.gradients + i, arrays.first + i, arrays.second + i},
            1);
    asm volatile("" ::: "memory");
  }
}

std::vector<std::pair<std::string, Run>> instruction_sets();

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void run_avx2(int kernel, const Arrays& arrays,
                                                  std::size_t count) {
  run_all(kernel, arrays, count);
}

__attribute__((target("avx512f,fma"))) void run_avx512(int kernel, const Arrays& arrays,
                                                       std::size_t count) {
  run_all(kernel, arrays, count);
}

std::vector<std::pair<std::string, Run>> instruction_sets() {
  std::vector<std::pair<std::string, Run>> sets = {{"default", run_default}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.emplace_back("avx2", run_avx2);
  }
  if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512f", run_avx512);
  return sets;
}
#else
std::vector<std::pair<std::string, Run>> instruction_sets() {
  return {{"default", run_default}};
}
#endif

// Weights, gradients and two arrays of state; the last has no negative numbers, as sums of squares
// have none.
struct Memory {
  explicit Memory(std::size_t size) {
    Rng rng({3, size});
    for (std::vector<float>& array : arrays) {
      for (std::size_t i = 0; i < size; ++i) array.push_back(rng.normal());
    }
    for (float& value : arrays[3]) value *= value;
    if (size > 2) arrays[0][2] = 0;  // Where sign() is 0.
  }

  Arrays from(std::size_t start) {
    return {arrays[0].data() + start, arrays[1].data() + start, arrays[2].data() + start,
            arrays[3].data() + start};
  }

  std::vector<float> arrays[4];
};

bool same_bits(const Memory& a, const Memory& b) {
  const auto same = [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  };
  for (std::size_t i = 0; i < 4; ++i) {
    if (!std::equal(a.arrays[i].begin(), a.arrays[i].end(), b.arrays[i].begin(), b.arrays[i].end(),
                    same)) {
      return false;
    }
  }
  return true;
}

TEST(Kernels, HaveTheSameBitsOnEveryInstructionSet) {
  for (const auto& [name, run] : instruction_sets()) {
    for (int kernel = 0; kernel < kKernels; ++kernel) {
      for (const std::size_t count :
           {0U, 1U, 3U, 7U, 8U, 15U, 16U, 17U, 31U, 33U, 64U, 100U, 1023U}) {
        for (std::size_t start = 0; start < 5; ++start) {
          Memory plain(count + start);
          Memory wide(count + start);
          run_scalar(kernel, plain.from(start), count);
          run(kernel, wide.from(start), count);
          ASSERT_TRUE(same_bits(plain, wide))
              << name << ", kernel " << kernel << ", " << count << " floats from " << start;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::optim::kernels
