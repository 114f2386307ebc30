// Losses on the model's last output: value, hits and gradient in one pass. Pure functions.
//
// A sample's loss is its mean over places (text) or values (regression); class weights multiply it.
// The mean over the batch divides by the number of samples, not by the sum of weights, so that
// lanes add up.
#pragma once

#include <span>

#include "arch/arch.h"
#include "data/dataset.h"
#include "model/model.h"

namespace tandem::model {

struct Outputs {
  float* values;      // rows x columns.
  std::int64_t rows;  // batch.size * targets per sample.
  std::int64_t columns;
};

// With `gradient` null the outputs may be overwritten. With it, also d(sum of sample losses) *
// scale / d(outputs).
LossSums loss_of(const arch::Loss& loss, const Outputs& outputs, const data::Batch& batch,
                 float scale, float* gradient);

// Turns outputs into what predict gives: probabilities for cross entropy and bce, values for mse.
// In place.
void to_predictions(const arch::Loss& loss, float* values, std::int64_t rows, std::int64_t columns);

}  // namespace tandem::model
