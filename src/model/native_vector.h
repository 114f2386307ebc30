// The widest register of the instruction set that the including source is compiled for, and what
// kernels need of it. For sources that CMakeLists.txt compiles once for each set: everything lies
// in the set's own namespace, which the build names whatever the compiler's usual set is, and none
// of it may be an inline function of another header, since the linker could pick the copy that an
// older processor cannot run.
#pragma once

#include <immintrin.h>

namespace tandem::model {

#if defined(TANDEM_AVX512)
#define TANDEM_ISA avx512
#elif defined(TANDEM_AVX2)
#define TANDEM_ISA avx2
#else
#define TANDEM_ISA plain
#endif

namespace TANDEM_ISA {
namespace {

#if defined(TANDEM_AVX512)
using Vector = __m512;
constexpr int kVectorFloats = 16;
[[maybe_unused]] Vector zero() {
  return _mm512_setzero_ps();
}
[[maybe_unused]] Vector load(const float* from) {
  return _mm512_load_ps(from);
}
[[maybe_unused]] Vector load_anywhere(const float* from) {
  return _mm512_loadu_ps(from);
}
[[maybe_unused]] Vector spread(const float* from) {
  return _mm512_set1_ps(*from);
}
[[maybe_unused]] Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[maybe_unused]] void store(float* to, Vector value) {
  _mm512_storeu_ps(to, value);
}
#elif defined(TANDEM_AVX2)
using Vector = __m256;
constexpr int kVectorFloats = 8;
[[maybe_unused]] Vector zero() {
  return _mm256_setzero_ps();
}
[[maybe_unused]] Vector load(const float* from) {
  return _mm256_load_ps(from);
}
[[maybe_unused]] Vector load_anywhere(const float* from) {
  return _mm256_loadu_ps(from);
}
[[maybe_unused]] Vector spread(const float* from) {
  return _mm256_broadcast_ss(from);
}
[[maybe_unused]] Vector multiply_add(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[maybe_unused]] void store(float* to, Vector value) {
  _mm256_storeu_ps(to, value);
}
#else
using Vector = __m128;
constexpr int kVectorFloats = 4;
[[maybe_unused]] Vector load_anywhere(const float* from) {
  return _mm_loadu_ps(from);
}
[[maybe_unused]] Vector multiply_add(Vector a, Vector b, Vector c) {
  return a * b + c;  // Rounded twice: this set has no other.
}
[[maybe_unused]] void store(float* to, Vector value) {
  _mm_storeu_ps(to, value);
}
#endif

}  // namespace
}  // namespace TANDEM_ISA
}  // namespace tandem::model
