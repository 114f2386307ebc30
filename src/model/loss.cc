#include "model/loss.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/exp.h"
#include "model/kernels.h"

namespace tandem::model {
namespace {

std::int64_t highest(const float* row, std::int64_t columns) {
  return std::max_element(row, row + columns) - row;
}

LossSums cross_entropy(const arch::Loss& loss, const Outputs& outputs, const data::Batch& batch,
                       float scale, float* gradient) {
  LossSums sums;
  const std::int64_t columns = outputs.columns;
  const float share = static_cast<float>(batch.size) /
                      static_cast<float>(outputs.rows);  // Of one place in its sample.
  const auto smoothing = static_cast<float>(loss.label_smoothing);
  const float even = smoothing / static_cast<float>(columns);
  for (std::int64_t r = 0; r < outputs.rows; ++r) {
    const std::int64_t target = batch.classes[static_cast<std::size_t>(r)];
    float* logits = outputs.values + r * columns;
    const float weight =
        loss.class_weights.empty() ? 1.0F : loss.class_weights[static_cast<std::size_t>(target)];
    const std::int64_t guess = highest(logits, columns);
    sums.correct += guess == target ? 1 : 0;
    const float top = logits[guess];
    const double above_target = top - logits[target];
    double above_mean = 0;
    for (std::int64_t c = 0; smoothing > 0 && c < columns; ++c) {
      above_mean += static_cast<double>(top - logits[c]) / static_cast<double>(columns);
    }
    float* row = gradient == nullptr ? logits : gradient + r * columns;
    if (gradient != nullptr) std::copy(logits, logits + columns, row);
    const double log_sum = std::log(static_cast<double>(softmax_row(row, columns, columns)));
    const double plain = log_sum + above_target, smooth = log_sum + above_mean;
    sums.loss += static_cast<double>(weight * share) *
                 ((1 - loss.label_smoothing) * plain + loss.label_smoothing * smooth);
    if (gradient == nullptr) continue;
    const float factor = weight * share * scale;
    for (std::int64_t c = 0; c < columns; ++c) row[c] = (row[c] - even) * factor;
    row[target] -= (1 - smoothing) * factor;
  }
  sums.predictions = outputs.rows;
  return sums;
}

// What place (row, column) should be: a value, or 1 for the target class and 0 for the others.
float wanted(const data::Batch& batch, const Outputs& outputs, std::int64_t row,
             std::int64_t column) {
  if (!batch.values.empty())
    return batch.values[static_cast<std::size_t>(row * outputs.columns + column)];
  const std::int64_t target = batch.classes[static_cast<std::size_t>(row)];
  return outputs.columns == 1 ? static_cast<float>(target) : (target == column ? 1.0F : 0.0F);
}

void count_hit(const data::Batch& batch, const Outputs& outputs, std::int64_t row, float threshold,
               LossSums& sums) {
  if (!batch.values.empty()) return;
  const float* values = outputs.values + row * outputs.columns;
  const std::int64_t guess =
      outputs.columns == 1 ? (values[0] > threshold ? 1 : 0) : highest(values, outputs.columns);
  sums.correct += guess == batch.classes[static_cast<std::size_t>(row)] ? 1 : 0;
  ++sums.predictions;
}

LossSums mean_squares(const Outputs& outputs, const data::Batch& batch, float scale,
                      float* gradient) {
  LossSums sums;
  const float share =
      static_cast<float>(batch.size) / static_cast<float>(outputs.rows * outputs.columns);
  for (std::int64_t r = 0; r < outputs.rows; ++r) {
    for (std::int64_t c = 0; c < outputs.columns; ++c) {
      const std::int64_t at = r * outputs.columns + c;
      const float difference = outputs.values[at] - wanted(batch, outputs, r, c);
      sums.loss += static_cast<double>(difference) * difference * share;
      if (gradient != nullptr) gradient[at] = 2 * difference * share * scale;
    }
    count_hit(batch, outputs, r, 0.5F, sums);
  }
  if (!batch.values.empty()) sums.values = batch.size;
  return sums;
}

// Binary cross entropy on logits.
LossSums binary(const Outputs& outputs, const data::Batch& batch, float scale, float* gradient) {
  LossSums sums;
  const float share =
      static_cast<float>(batch.size) / static_cast<float>(outputs.rows * outputs.columns);
  for (std::int64_t r = 0; r < outputs.rows; ++r) {
    for (std::int64_t c = 0; c < outputs.columns; ++c) {
      const std::int64_t at = r * outputs.columns + c;
      const double logit = outputs.values[at], target = wanted(batch, outputs, r, c);
      // max(x, 0) - x t + log(1 + exp(-|x|)): never overflows.
      sums.loss +=
          (std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::abs(logit)))) * share;
      if (gradient != nullptr) {
        const float probability = 1 / (1 + fast_exp(-outputs.values[at]));
        gradient[at] = (probability - static_cast<float>(target)) * share * scale;
      }
    }
    count_hit(batch, outputs, r, 0.0F, sums);
  }
  return sums;
}

}  // namespace

void LossSums::add(const LossSums& other) {
  loss += other.loss;
  correct += other.correct;
  predictions += other.predictions;
  values += other.values;
}

LossSums loss_of(const arch::Loss& loss, const Outputs& outputs, const data::Batch& batch,
                 float scale, float* gradient) {
  switch (loss.kind) {
    case arch::LossKind::kCrossEntropy:
      return cross_entropy(loss, outputs, batch, scale, gradient);
    case arch::LossKind::kMse:
      return mean_squares(outputs, batch, scale, gradient);
    case arch::LossKind::kBce:
      return binary(outputs, batch, scale, gradient);
  }
  TANDEM_CHECK(false);
}

void to_predictions(const arch::Loss& loss, float* values, std::int64_t rows,
                    std::int64_t columns) {
  if (loss.kind == arch::LossKind::kMse) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = values + r * columns;
    if (loss.kind == arch::LossKind::kCrossEntropy) {
      softmax_row(row, columns, columns);
    } else {
      for (std::int64_t c = 0; c < columns; ++c) row[c] = 1 / (1 + std::exp(-row[c]));
    }
  }
}

}  // namespace tandem::model
