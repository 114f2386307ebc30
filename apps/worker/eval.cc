#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/source.h"
#include "train/evaluate.h"
#include "train/saved_model.h"

namespace tandem::worker {
namespace {

Status same_shape(const data::Spec& data, const data::Spec& model) {
  if (data.shape == model.shape && data.input == model.input && data.classes == model.classes &&
      data.target_width == model.target_width) {
    return {};
  }
  return Error(Code::kInvalidArgument,
               fmt::format("the data does not fit the model: {} classes and {} numbers a sample, "
                           "where it was trained "
                           "on {} and {}",
                           data.classes, data.sample_size(), model.classes, model.sample_size()));
}

const data::Dataset& choose(const data::Parts& parts, const std::string& part) {
  if (part == "train") return *parts.train;
  return part == "validation" ? *parts.validation : *parts.test;
}

void show(const EvalOptions& options, const train::Evaluation& evaluation) {
  if (options.format == Format::kText) {
    fmt::print("{}: {} samples, loss {:.6f}", options.part, evaluation.samples, evaluation.loss);
    if (evaluation.accuracy) fmt::print(", accuracy {:.2f} %", 100 * *evaluation.accuracy);
    fmt::print("\n");
    return;
  }
  nlohmann::json result = {
      {"part", options.part}, {"samples", evaluation.samples}, {"loss", evaluation.loss}};
  result["accuracy"] =
      evaluation.accuracy ? nlohmann::json(*evaluation.accuracy) : nlohmann::json(nullptr);
  std::puts(result.dump().c_str());
}

}  // namespace

Status eval(const EvalOptions& options) {
  TANDEM_ASSIGN(const train::TrainedModel trained,
                train::load_trained(options.model, options.overrides));
  TANDEM_ASSIGN(const data::Parts parts, data::load(trained.job.data, options.base_directory));
  TANDEM_TRY(same_shape(parts.spec, trained.spec));
  const data::Dataset& part = choose(parts, options.part);
  if (part.size() == 0) {
    return Error(
        Code::kInvalidArgument,
        fmt::format("the {} part of the data is empty; choose another with --part", options.part));
  }
  TANDEM_ASSIGN(const train::Evaluation evaluation,
                train::evaluate(*trained.model, part, trained.job.data.prefetch, {}));
  show(options, evaluation);
  return {};
}

}  // namespace tandem::worker
