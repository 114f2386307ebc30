#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/source.h"
#include "train/evaluate.h"
#include "train/saved_model.h"

namespace tandem::worker {
namespace {

// The numbers mean what they meant in training only when classes, columns, vocabulary and
// normalisation are the model's.
Status same_encoding(const data::Parts& parts, const train::TrainedModel& trained) {
  const data::Spec &data = parts.spec, &model = trained.spec;
  if (data == model && parts.encoding == trained.encoding) return {};
  if (data.shape == model.shape && data.classes == model.classes) {
    return Error(Code::kInvalidArgument,
                 "the data gives other classes, columns, characters or another normalisation than "
                 "the model was trained "
                 "with; leave the training data as it was and give new data as data.test_path, "
                 "or as data.test_images "
                 "and data.test_labels, to the test part");
  }
  return Error(Code::kInvalidArgument,
               fmt::format("the data does not fit the model: {} classes and {} numbers a sample, "
                           "where it was trained "
                           "on {} and {}",
                           data.classes, data.sample_size(), model.classes, model.sample_size()));
}

Result<std::shared_ptr<const data::Dataset>> load_part(const EvalOptions& options,
                                                       const train::TrainedModel& trained) {
  const data::SourceConfig& config = trained.job.data;
  // Not by way of the training data: an own test part given now leaves more of it to train on than
  // there was, so that another normalisation would be learnt.
  if (options.part == "test" && data::has_own_test(config)) {
    return data::load_own_test(config, options.base_directory, trained.spec, trained.encoding);
  }
  TANDEM_ASSIGN(const data::Parts parts, data::load(config, options.base_directory));
  TANDEM_TRY(same_encoding(parts, trained));
  if (options.part == "train") return parts.train;
  return options.part == "validation" ? parts.validation : parts.test;
}

void show(const EvalOptions& options, const train::Evaluation& evaluation) {
  if (options.format == Format::kText) {
    fmt::print("{}: {} samples, loss {:.6f}", options.part, evaluation.samples, evaluation.loss);
    if (evaluation.accuracy) fmt::print(", accuracy {:.2f} %", 100 * *evaluation.accuracy);
    if (evaluation.rmse) fmt::print(", rmse {:.4f}", *evaluation.rmse);
    fmt::print("\n");
    return;
  }
  nlohmann::json result = {
      {"part", options.part}, {"samples", evaluation.samples}, {"loss", evaluation.loss}};
  result["accuracy"] =
      evaluation.accuracy ? nlohmann::json(*evaluation.accuracy) : nlohmann::json(nullptr);
  if (evaluation.rmse) result["rmse"] = *evaluation.rmse;
  std::puts(result.dump().c_str());
}

}  // namespace

Status eval(const EvalOptions& options) {
  TANDEM_ASSIGN(const train::TrainedModel trained,
                train::load_trained(options.model, options.overrides));
  TANDEM_ASSIGN(const auto part, load_part(options, trained));
  if (part->size() == 0) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("the {} part of the data is empty; choose another with --part", options.part));
  }
  collective::Group alone;
  TANDEM_ASSIGN(const auto evaluation,
                train::evaluate(*trained.model, *part, trained.job.data.prefetch, alone, {}, {}));
  show(options, *evaluation);
  return {};
}

}  // namespace tandem::worker
