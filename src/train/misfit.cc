#include "train/misfit.h"

#include <fmt/format.h>

#include <algorithm>

#include "converge/judge.h"
#include "data/loader.h"

namespace tandem::train {
namespace {

// Whether a batch-norm has one number a sample and channel.
bool normalises_vectors(const arch::Block& block) {
  bool vector = block.input_shape.size() == 1;
  for (const arch::Layer& layer : block.layers) {
    if (layer.kind == arch::LayerKind::kBatchNorm && vector) return true;
    vector = vector || layer.kind == arch::LayerKind::kFlatten ||
             layer.kind == arch::LayerKind::kGlobalAvgPool;
  }
  return false;
}

}  // namespace

std::optional<Misfit> misfit_of_lanes(const job::Job& job, const arch::Blueprint& blueprint) {
  if (job.train.batch / job.lanes() > 1) return std::nullopt;
  if (!std::any_of(blueprint.blocks.begin(), blueprint.blocks.end(), normalises_vectors))
    return std::nullopt;
  return Misfit{job.lanes() > 1 ? "cluster.lanes" : "train.batch",
                fmt::format("batchnorm needs two samples or more, and {} lanes that share a batch "
                            "of {} have one; use a larger batch or layernorm",
                            job.lanes(), job.train.batch)};
}

std::optional<Misfit> misfit_of_frozen_tables(const arch::Blueprint& blueprint,
                                              const Trainable& trainable) {
  for (const arch::Slot& slot : blueprint.slots) {
    const bool trained = std::any_of(
        trainable.parameters.begin(), trainable.parameters.end(), [&](const optim::Range& range) {
          return range.begin <= slot.offset && slot.offset + slot.size <= range.end;
        });
    if (trained || !is_window(blueprint, slot)) continue;
    return Misfit{"model.freeze",
                  fmt::format("table `{}` is frozen, and sparse tables have only rows that are "
                              "trained; use ps.tables = \"dense\"",
                              slot.name)};
  }
  return std::nullopt;
}

// Probabilities are what binary cross entropy is told.
std::optional<Misfit> misfit_of_targets(const job::Train& recipe, const data::Parts& parts) {
  if (recipe.loss.kind != arch::LossKind::kBce || parts.spec.target != data::Target::kValue)
    return std::nullopt;
  constexpr std::int64_t kBatch = 256;
  data::Loader loader(*parts.train, kBatch, 0);
  while (const data::LoadedBatch* loaded = loader.next()) {
    for (const float value : loaded->batch.values) {
      if (value >= 0 && value <= 1) continue;
      return Misfit{
          "train.loss",
          fmt::format("bce needs targets from 0 to 1 but the data has {}; use \"mse\"", value)};
    }
  }
  return std::nullopt;
}

std::optional<Misfit> misfit_of_length(const job::Train& recipe, const Length& length,
                                       const data::Parts& parts) {
  if (recipe.schedule.warmup_steps >= length.total_steps) {
    return Misfit{"train.schedule.warmup_steps",
                  fmt::format("the warm-up of {} steps does not end within the training of {}; the "
                              "rate would never be reached",
                              recipe.schedule.warmup_steps, length.total_steps)};
  }
  const bool early = converge::criteria_of(recipe).any();
  const bool plateau = recipe.schedule.kind == optim::ScheduleKind::kPlateau;
  if (!early && !plateau) return std::nullopt;
  const std::string key = early ? "train.early_stop" : "train.schedule";
  if (parts.validation->size() == 0 && parts.test->size() == 0) {
    return Misfit{key,
                  "it needs evaluations, but there is neither a validation nor a test part; set "
                  "data.validation"};
  }
  const std::int64_t first = length.steps_per_epoch * recipe.eval_every_epochs;
  if (length.total_steps < first) {
    return Misfit{key, fmt::format("it needs evaluations, but the training of {} steps ends before "
                                   "the first, at step {}",
                                   length.total_steps, first)};
  }
  return std::nullopt;
}

std::optional<Misfit> misfit_of_metric(const job::Job& job, const data::Spec& spec) {
  if (spec.target != data::Target::kValue) return std::nullopt;
  if (converge::criteria_of(job.train).any() && job.train.early_stop_metric == "accuracy")
    return Misfit{"train.early_stop.metric", "numbers have no accuracy; use metric = \"loss\""};
  if (job.checkpoint.best == "accuracy")
    return Misfit{"checkpoint.best", "numbers have no accuracy; use \"loss\""};
  return std::nullopt;
}

}  // namespace tandem::train
