// What a job file says about optimizers, schedules and clipping. Plain values; defaults are the job
// file's defaults.
#pragma once

#include <cstdint>

namespace tandem::optim {

enum class OptimizerKind : std::uint8_t { kSgd, kAdam, kAdamW, kAdagrad };

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0.05;
  double momentum = 0;      // sgd.
  bool nesterov = false;    // sgd; needs momentum.
  double beta1 = 0.9;       // adam, adamw.
  double beta2 = 0.999;     // adam, adamw.
  double epsilon = 1e-8;    // adam, adamw, adagrad.
  double weight_decay = 0;  // L2; decoupled for adamw.
  double l1 = 0;
};

// Whether a gradient of zero leaves a parameter and the optimizer's state of it as they are, to the
// bit: then parameters without a gradient may be left out of a step.
constexpr bool ignores_zero_gradients(const OptimizerConfig& config) {
  if (config.weight_decay != 0 || config.l1 != 0) return false;
  if (config.kind == OptimizerKind::kSgd) return config.momentum == 0;
  // 0 / (0 + epsilon) is to be a number.
  return config.kind == OptimizerKind::kAdagrad && static_cast<float>(config.epsilon) > 0;
}

enum class ScheduleKind : std::uint8_t { kConstant, kStep, kCosine, kPlateau };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;   // Any kind: lr grows linearly from 0 over these steps.
  std::int64_t every_epochs = 10;  // step: multiply by gamma after each of these.
  double gamma = 0.1;              // step, plateau.
  double min_lr = 0;               // cosine ends here; plateau does not go below.
  std::int64_t patience = 3;       // plateau: evaluations without a better loss.
};

struct ClipConfig {
  double norm = 0;   // Of the whole gradient; 0: off.
  double value = 0;  // Of each element; 0: off.
};

}  // namespace tandem::optim
