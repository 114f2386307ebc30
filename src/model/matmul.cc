#include "model/matmul.h"

#include <cblas.h>

namespace tandem::model {
namespace {

CBLAS_TRANSPOSE flag(Transpose transpose) { return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans; }

}  // namespace

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Matrix a, Matrix b, float* c, std::int64_t c_stride,
              float beta, float alpha) {
  cblas_sgemm(CblasRowMajor, flag(a.transpose), flag(b.transpose), static_cast<blasint>(m), static_cast<blasint>(n),
              static_cast<blasint>(k), alpha, a.data, static_cast<blasint>(a.stride), b.data,
              static_cast<blasint>(b.stride), beta, c, static_cast<blasint>(c_stride));
}

}  // namespace tandem::model
