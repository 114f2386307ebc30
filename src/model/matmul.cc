#include "model/matmul.h"

#include <cblas.h>

#include <dnnl.hpp>

#include "base/check.h"
#include "model/tile_product.h"

namespace tandem::model {
namespace {

// Which library multiplies faster, measured with one thread: oneDNN by up to four times on small
// products and by 3 to 6 % on most others; with AVX2 OpenBLAS by up to 1.6 times where the left
// side is transposed or the result is very wide. A rule, not a measurement at run time: the choice
// is part of a run's bits.
bool prefers_onednn(std::int64_t m, std::int64_t n, std::int64_t k, Transpose left) {
  constexpr std::int64_t kSmall = 1 << 20, kWide = 4096, kThin = 128, kConflict = 256;
  if (m * n * k <= kSmall) return true;
  if (left == Transpose::kYes && tile_kernel() == &avx512::kTileKernel) return true;
  if (left == Transpose::kYes) return k <= kThin && n % kConflict != 0;
  return n <= kWide;
}

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c,
              std::int64_t c_stride, float beta, float alpha) {
  if ((beta == 0 || beta == 1) && alpha == 1 && prefers_tiles(m, n, k, a.transpose, b.transpose)) {
    multiply_tiles(m, n, k, a, b, c, c_stride, beta == 1);
    return;
  }
  if (prefers_onednn(m, n, k, a.transpose)) {
    const auto flag = [](Transpose transpose) { return transpose == Transpose::kYes ? 'T' : 'N'; };
    const dnnl_status_t status = dnnl_sgemm(flag(a.transpose), flag(b.transpose), m, n, k, alpha,
                                            a.data, a.stride, b.data, b.stride, beta, c, c_stride);
    TANDEM_CHECK(status == dnnl_success);
    return;
  }
  const auto flag = [](Transpose transpose) {
    return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
  };
  cblas_sgemm(CblasRowMajor, flag(a.transpose), flag(b.transpose), static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a.data,
              static_cast<blasint>(a.stride), b.data, static_cast<blasint>(b.stride), beta, c,
              static_cast<blasint>(c_stride));
}

}  // namespace tandem::model
