// Loss, and accuracy or error, of a model on one part of a data set.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "collective/group.h"
#include "data/dataset.h"
#include "model/model.h"

namespace tandem::train {

// Samples that are evaluated at a time.
inline constexpr std::int64_t kEvaluationBatch = 128;

// Prepares what a batch needs, and gives what the model shall read instead; valid until the next
// call. Empty: the batch as it is.
using BatchView = std::function<Result<const data::Batch*>(const data::Batch&)>;

struct Evaluation {
  double loss = 0;                 // Mean over samples.
  std::optional<double> accuracy;  // Absent for regression.
  std::int64_t samples = 0;
  std::optional<double> rmse;  // Regression with mse: the root of the loss.
};

// Runs over `part` in index order, each worker of the group over its share of the batches; all get
// the same result, whose bits do not depend on the number of workers. Nothing when `stop` returned
// true between batches at any worker. `patience` is how long the first to end waits for the last.
// REQUIRES: part.size() > 0.
Result<std::optional<Evaluation>> evaluate(model::Model& model, const data::Dataset& part,
                                           std::int64_t threads, collective::Group& group,
                                           std::chrono::milliseconds patience,
                                           const std::function<bool()>& stop,
                                           const BatchView& view = {});

}  // namespace tandem::train
