// TANDEM_SIMD before a function compiles it for several instruction sets and picks one when the
// program starts. The body is plain loops that the compiler vectorises; -ffp-contract=off (set for
// the whole project) keeps every width to the same operations, so all of them give the same bits.
// Sums must be written with kSimdLanes separate accumulators for that to hold.
//
// Under sanitizers and other compilers there is one plain version: resolvers would run before their
// runtimes do.
#pragma once

#include <cstddef>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TANDEM_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TANDEM_SIMD
#endif

namespace tandem {

// Accumulators of a vectorised sum: one AVX-512 register, two of AVX2, four of SSE.
inline constexpr std::size_t kSimdLanes = 16;

}  // namespace tandem
