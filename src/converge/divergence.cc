#include "converge/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem::converge {
namespace {

// The logarithm of the sum of the exponentials, without overflow.
double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double kl(std::span<const float> p, std::span<const float> q) {
  const double p_scale = log_sum_exp(p), q_scale = log_sum_exp(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_scale;
    const double probability = std::exp(log_p);
    // What is impossible adds nothing, however impossible the other finds it.
    if (probability > 0) sum += probability * (log_p - (q[i] - q_scale));
  }
  return std::max(0.0, sum);  // Rounding may have left it a little below.
}

}  // namespace

double mean_kl(std::span<const float> p, std::span<const float> q, std::size_t classes) {
  TANDEM_CHECK(classes > 0 && p.size() == q.size() && p.size() % classes == 0);
  const std::size_t rows = p.size() / classes;
  if (rows == 0) return 0;
  double sum = 0;
  for (std::size_t row = 0; row < rows; ++row)
    sum += kl(p.subspan(row * classes, classes), q.subspan(row * classes, classes));
  return sum / static_cast<double>(rows);
}

double relative_distance(std::span<const float> a, std::span<const float> b) {
  TANDEM_CHECK(a.size() == b.size());
  double a_square = 0, b_square = 0, square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    a_square += x * x;
    b_square += y * y;
    square += (x - y) * (x - y);
  }
  // Both are zero, or equal.
  if (square == 0) return 0;
  return std::sqrt(square / std::max(a_square, b_square));
}

}  // namespace tandem::converge
