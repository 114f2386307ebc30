// Loss and accuracy of a model on one part of a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "data/dataset.h"
#include "model/model.h"

namespace tandem::train {

struct Evaluation {
  double loss = 0;                 // Mean over samples.
  std::optional<double> accuracy;  // Absent for regression.
  std::int64_t samples = 0;
};

// Runs over `part` in index order. Stops early, with what it has, when `stop` returns true between
// batches. REQUIRES: part.size() > 0.
Result<Evaluation> evaluate(model::Model& model, const data::Dataset& part, std::int64_t threads,
                            const std::function<bool()>& stop);

}  // namespace tandem::train
