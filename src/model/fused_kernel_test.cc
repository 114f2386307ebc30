#include "model/fused_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tandem::model {
namespace {

struct NamedKernel {
  const char* name;
  const FusedKernel* kernel;
};

std::vector<NamedKernel> kernels_of_this_machine() {
  std::vector<NamedKernel> found = {{"plain", &plain::kFusedKernel}};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    found.push_back({"avx2", &avx2::kFusedKernel});
  if (__builtin_cpu_supports("avx512f") != 0) found.push_back({"avx512", &avx512::kFusedKernel});
  return found;
}

std::vector<float> spread_out(std::size_t count, float from, float to) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = static_cast<float>(i * 7919 % 1009) / 1008.0F;
    values[i] = from + (to - from) * part;
  }
  return values;
}

// What a kernel makes of rows of every length, and then of their gradients.
struct Rows {
  std::vector<std::vector<float>> probabilities, gradients;
  std::vector<float> sums;
};

constexpr std::size_t kColumns = 101;
constexpr float kScale = 0.3F, kUntouched = 77;

// A row that ends where its numbers do, so that a kernel that goes further is seen.
std::vector<float> row_of(std::size_t columns, std::size_t length, float from, float to) {
  std::vector<float> row = spread_out(columns, from, to);
  for (std::size_t i = length; i < columns; ++i) row[i] = std::numeric_limits<float>::quiet_NaN();
  row.push_back(kUntouched);
  return row;
}

Rows rows_of(const FusedKernel& kernel, std::size_t columns) {
  Rows rows;
  const auto signed_columns = static_cast<std::int64_t>(columns);
  for (std::size_t length = 1; length <= columns; ++length) {
    const auto signed_length = static_cast<std::int64_t>(length);
    std::vector<float> p = row_of(columns, length, -40, 40);
    std::vector<float> dp = row_of(columns, length, -1, 1);
    rows.sums.push_back(kernel.softmax_row(p.data(), signed_length, signed_columns, kScale));
    kernel.softmax_row_backward(p.data(), dp.data(), signed_length, signed_columns, kScale);
    rows.probabilities.push_back(p);
    rows.gradients.push_back(dp);
  }
  return rows;
}

void expect_softmax(const Rows& rows, std::size_t columns) {
  for (std::size_t length = 1; length <= columns; ++length) {
    SCOPED_TRACE(length);
    const std::vector<float> x = row_of(columns, length, -40, 40),
                             up = row_of(columns, length, -1, 1);
    double top = -1e9, sum = 0, dot = 0;
    for (std::size_t i = 0; i < length; ++i) top = std::max(top, double{x[i]});
    const auto power = [&](std::size_t i) { return std::exp((double{x[i]} - top) * kScale); };
    for (std::size_t i = 0; i < length; ++i) sum += power(i);
    for (std::size_t i = 0; i < length; ++i) dot += power(i) / sum * double{up[i]};
    EXPECT_NEAR(rows.sums[length - 1], sum, sum * 1e-6);
    for (std::size_t i = 0; i < columns; ++i) {
      const double p = i < length ? power(i) / sum : 0;
      ASSERT_NEAR(rows.probabilities[length - 1][i], p, 1e-6) << i;
      ASSERT_NEAR(rows.gradients[length - 1][i],
                  i < length ? p * (double{up[i]} - dot) * kScale : 0, 1e-6)
          << i;
    }
    EXPECT_EQ(rows.probabilities[length - 1].back(), kUntouched);
    EXPECT_EQ(rows.gradients[length - 1].back(), kUntouched);
  }
}

TEST(FusedKernel, IsSoftmaxForRowsOfEveryLength) {
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    for (std::size_t columns : {std::size_t{64}, kColumns})
      expect_softmax(rows_of(*each.kernel, columns), columns);
  }
}

struct Gelu {
  std::vector<float> of, slope, back;
};

Gelu gelu_of(const FusedKernel& kernel, const std::vector<float>& x) {
  Gelu result = {x, x, x};
  kernel.gelu(x.data(), result.of.data(), x.size());
  kernel.gelu_backward(x.data(), x.data(), result.back.data(), x.size());
  // Two rows, of x and of x, whose bias is zero; the first row's results are looked at.
  const std::vector<float> bias(x.size());
  std::vector<float> values = x, active(2 * x.size());
  values.insert(values.end(), x.begin(), x.end());
  kernel.gelu_of_biased(values.data(), bias.data(), active.data(), 2,
                        static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(active[i], result.of[i]);
    EXPECT_EQ(active[i + x.size()], result.of[i]);
  }
  result.slope.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(x.size()));
  return result;
}

TEST(FusedKernel, IsGeluAndItsSlope) {
  const std::vector<float> x = spread_out(1003, -15, 15);
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    const Gelu found = gelu_of(*each.kernel, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double at = double{x[i]};
      const double below = 0.5 * std::erfc(-at * std::sqrt(0.5));
      const double slope = below + at * std::exp(-0.5 * at * at) * 0.3989422804014327;
      const double error = 2e-7 * std::max(1.0, std::abs(at));
      ASSERT_NEAR(found.of[i], at * below, error) << at;
      ASSERT_NEAR(found.slope[i], slope, 4e-7) << at;
      ASSERT_NEAR(found.back[i], at * slope, 4e-7 * std::max(1.0, std::abs(at))) << at;
    }
  }
}

// Layer norm of rows with weights and biases, and its gradients, added to ones.
struct Norm {
  std::vector<float> y, mean, inverse, down, weights_back, biases_back;
};

constexpr std::int64_t kRows = 9;

struct NormInput {
  explicit NormInput(std::size_t columns)
      : x(spread_out(kRows * columns, -3, 5)),
        up(spread_out(kRows * columns, 1, -1)),
        weight(spread_out(columns, 0.5F, 2)),
        bias(spread_out(columns, -1, 1)) {}
  std::vector<float> x, up, weight, bias;
};

Norm norm_of(const FusedKernel& kernel, std::size_t columns, Write how) {
  const NormInput in(columns);
  const auto count = static_cast<std::int64_t>(columns);
  Norm norm;
  norm.y.assign(kRows * columns, 0);
  norm.mean.assign(kRows, 0);
  norm.inverse.assign(kRows, 0);
  kernel.layer_norm(in.x.data(), in.weight.data(), in.bias.data(), norm.y.data(), norm.mean.data(),
                    norm.inverse.data(), kRows, count);
  norm.down.assign(kRows * columns,
                   how == Write::kAdd ? 1 : std::numeric_limits<float>::quiet_NaN());
  norm.weights_back.assign(columns, 0);
  norm.biases_back.assign(columns, 0);
  kernel.layer_norm_backward(in.up.data(), in.x.data(), in.weight.data(), norm.mean.data(),
                             norm.inverse.data(), norm.down.data(), norm.weights_back.data(),
                             norm.biases_back.data(), kRows, count, how);
  return norm;
}

void expect_norm(const Norm& found, std::size_t columns, Write how) {
  const NormInput in(columns);
  const auto count = static_cast<double>(columns);
  std::vector<double> weights_back(columns), biases_back(columns);
  for (std::size_t r = 0; r < kRows; ++r) {
    const float* const x = in.x.data() + r * columns;
    const float* const up = in.up.data() + r * columns;
    double mean = 0, variance = 0, sum = 0, dot = 0;
    for (std::size_t c = 0; c < columns; ++c) mean += double{x[c]} / count;
    for (std::size_t c = 0; c < columns; ++c)
      variance += (double{x[c]} - mean) * (double{x[c]} - mean) / count;
    const double scale = 1 / std::sqrt(variance + 1e-5);
    const auto normal = [&](std::size_t c) { return (double{x[c]} - mean) * scale; };
    for (std::size_t c = 0; c < columns; ++c) {
      const double weighted = double{up[c]} * double{in.weight[c]};
      sum += weighted / count;
      dot += weighted * normal(c) / count;
      weights_back[c] += double{up[c]} * normal(c);
      biases_back[c] += double{up[c]};
    }
    EXPECT_NEAR(found.mean[r], mean, 1e-5);
    EXPECT_NEAR(found.inverse[r], scale, 1e-5);
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t at = r * columns + c;
      ASSERT_NEAR(found.y[at], normal(c) * double{in.weight[c]} + double{in.bias[c]}, 1e-5) << c;
      const double down = (double{up[c]} * double{in.weight[c]} - sum - normal(c) * dot) * scale;
      ASSERT_NEAR(found.down[at], down + (how == Write::kAdd ? 1 : 0), 1e-5) << c;
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    ASSERT_NEAR(found.weights_back[c], weights_back[c], 1e-4) << c;
    ASSERT_NEAR(found.biases_back[c], biases_back[c], 1e-4) << c;
  }
}

TEST(FusedKernel, IsLayerNormAndItsGradients) {
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    for (const std::size_t columns : {std::size_t{7}, std::size_t{128}, kColumns}) {
      for (const Write how : {Write::kReplace, Write::kAdd})
        expect_norm(norm_of(*each.kernel, columns, how), columns, how);
    }
  }
}

TEST(FusedKernel, HasTheSameBitsWithEveryFusedSet) {
  const std::vector<NamedKernel> found = kernels_of_this_machine();
  if (found.size() < 3) return;  // One fused set at most.
  const Rows narrow = rows_of(*found[1].kernel, kColumns),
             wide = rows_of(*found[2].kernel, kColumns);
  EXPECT_EQ(narrow.probabilities, wide.probabilities);
  EXPECT_EQ(narrow.gradients, wide.gradients);
  EXPECT_EQ(narrow.sums, wide.sums);
  const Norm thin = norm_of(*found[1].kernel, kColumns, Write::kAdd),
             thick = norm_of(*found[2].kernel, kColumns, Write::kAdd);
  EXPECT_EQ(thin.y, thick.y);
  EXPECT_EQ(thin.down, thick.down);
  EXPECT_EQ(thin.weights_back, thick.weights_back);
  EXPECT_EQ(thin.biases_back, thick.biases_back);
  const std::vector<float> x = spread_out(1003, -15, 15);
  const Gelu one = gelu_of(*found[1].kernel, x), other = gelu_of(*found[2].kernel, x);
  EXPECT_EQ(one.of, other.of);
  EXPECT_EQ(one.slope, other.slope);
  EXPECT_EQ(one.back, other.back);
}

TEST(FusedKernel, ShowsThatANumberIsNone) {
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7fc00001U, 0xffffffffU}) {
      for (std::size_t place : {0, 5, 20, 39}) {
        std::vector<float> row = spread_out(40, -1, 1);
        row[place] = std::bit_cast<float>(bits);
        std::vector<float> y(row.size());
        each.kernel->gelu(row.data(), y.data(), row.size());
        EXPECT_TRUE(std::isnan(y[place])) << bits;
        const float sum = each.kernel->softmax_row(row.data(), 40, 40, 1);
        EXPECT_TRUE(std::isnan(sum) && std::isnan(row[place])) << bits << " at " << place;
      }
    }
  }
}

TEST(FusedKernel, DoesNotMindWhatIsBehindARow) {
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    std::vector<float> row(64);
    std::fill(row.begin() + 20, row.end(), 1000.0F);
    EXPECT_EQ(each.kernel->softmax_row(row.data(), 20, 64, 1), 20);
    for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i], i < 20 ? 0.05F : 0.0F) << i;
  }
}

TEST(FusedKernel, MakesNothingOfWhatIsFarBelow) {
  for (const NamedKernel& each : kernels_of_this_machine()) {
    SCOPED_TRACE(each.name);
    std::vector<float> row = {0, 0, -86, -88, -1000, -std::numeric_limits<float>::infinity()};
    each.kernel->softmax_row(row.data(), 6, 6, 1);
    EXPECT_GT(row[2], 0);
    for (std::size_t i = 3; i < row.size(); ++i) EXPECT_EQ(row[i], 0) << i;
  }
}

}  // namespace
}  // namespace tandem::model
