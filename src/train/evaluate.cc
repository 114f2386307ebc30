#include "train/evaluate.h"

#include <algorithm>

#include "base/check.h"
#include "data/loader.h"

namespace tandem::train {

Result<Evaluation> evaluate(model::Model& model, const data::Dataset& part, std::int64_t threads,
                            const std::function<bool()>& stop) {
  constexpr std::int64_t kBatch = 128;
  TANDEM_CHECK(part.size() > 0);
  data::Loader loader(part, std::min(kBatch, part.size()), threads);
  model::LossSums sums;
  std::int64_t samples = 0;
  while (const data::LoadedBatch* loaded = loader.next()) {
    TANDEM_ASSIGN(const model::LossSums batch_sums, model.evaluate(loaded->batch));
    sums.add(batch_sums);
    samples += loaded->batch.size;
    if (stop && stop()) break;
  }
  Evaluation result{sums.loss / static_cast<double>(samples), {}, samples};
  if (sums.predictions > 0) {
    result.accuracy = static_cast<double>(sums.correct) / static_cast<double>(sums.predictions);
  }
  return result;
}

}  // namespace tandem::train
