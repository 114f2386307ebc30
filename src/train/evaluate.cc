#include "train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "data/loader.h"

namespace tandem::train {

namespace {

// What a worker tells of one batch; a plain value that travels as bytes.
struct BatchSums {
  double loss = 0;
  std::int64_t correct = 0, predictions = 0, samples = 0, values = 0;
};

// This worker's share, batch after batch; short when it was asked to stop.
Result<std::vector<BatchSums>> evaluate_share(model::Model& model, data::Loader& loader,
                                              const std::function<bool()>& stop,
                                              const BatchView& view) {
  std::vector<BatchSums> share;
  while (const data::LoadedBatch* loaded = loader.next()) {
    const data::Batch* batch = &loaded->batch;
    if (view) {
      TANDEM_ASSIGN(batch, view(loaded->batch));
    }
    TANDEM_ASSIGN(const model::LossSums sums, model.evaluate(*batch));
    share.push_back({sums.loss, sums.correct, sums.predictions, loaded->batch.size, sums.values});
    if (stop && stop()) break;
  }
  return share;
}

}  // namespace

Result<std::optional<Evaluation>> evaluate(model::Model& model, const data::Dataset& part,
                                           std::int64_t threads, collective::Group& group,
                                           std::chrono::milliseconds patience,
                                           const std::function<bool()>& stop,
                                           const BatchView& view) {
  constexpr std::int64_t kBatch = kEvaluationBatch;
  TANDEM_CHECK(part.size() > 0);
  const std::int64_t batches = (part.size() + kBatch - 1) / kBatch;
  data::Loader loader(part, std::min(kBatch, part.size()), threads, {group.rank(), group.size()});
  TANDEM_ASSIGN(std::vector<BatchSums> share, evaluate_share(model, loader, stop, view));
  const auto each = static_cast<std::size_t>((batches + group.size() - 1) / group.size());
  share.resize(each);
  std::vector<BatchSums> all(each * static_cast<std::size_t>(group.size()));
  TANDEM_TRY(group.all_gather(std::as_bytes(std::span(share)),
                              std::as_writable_bytes(std::span(all)),
                              collective::deadline_after(patience)));
  BatchSums total;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const BatchSums& sums = all[static_cast<std::size_t>(batch % group.size()) * each +
                                static_cast<std::size_t>(batch / group.size())];
    total.loss += sums.loss;
    total.correct += sums.correct;
    total.predictions += sums.predictions;
    total.samples += sums.samples;
    total.values += sums.values;
  }
  if (total.samples != part.size()) return std::optional<Evaluation>();
  Evaluation result{total.loss / static_cast<double>(total.samples), {}, total.samples, {}};
  if (total.predictions > 0) {
    result.accuracy = static_cast<double>(total.correct) / static_cast<double>(total.predictions);
  }
  if (total.values > 0) result.rmse = std::sqrt(result.loss);
  return std::optional<Evaluation>(result);
}

}  // namespace tandem::train
