#include "optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "optim/portable.h"

namespace tandem::optim {
namespace {

Error out_of_range(std::string_view key, double value, std::string_view expected) {
  return Error(Code::kInvalidArgument,
               fmt::format("schedule.{} is {}, but must be {}", key, value, expected));
}

// Comparisons are written so that NaN fails them.
Status check(const ScheduleConfig& config, double lr) {
  const bool uses_gamma =
      config.kind == ScheduleKind::kStep || config.kind == ScheduleKind::kPlateau;
  const bool uses_min_lr =
      config.kind == ScheduleKind::kCosine || config.kind == ScheduleKind::kPlateau;
  if (config.warmup_steps < 0) {
    return out_of_range("warmup_steps", static_cast<double>(config.warmup_steps), "0 or more");
  }
  if (uses_gamma && !(config.gamma > 0 && config.gamma <= 1)) {
    return out_of_range("gamma", config.gamma, "above 0 and at most 1");
  }
  if (uses_min_lr && !(config.min_lr >= 0 && config.min_lr <= lr)) {
    return out_of_range("min_lr", config.min_lr,
                        fmt::format("at least 0 and at most the optimizer's lr, {}", lr));
  }
  if (config.kind == ScheduleKind::kStep && config.every_epochs < 1) {
    return out_of_range("every_epochs", static_cast<double>(config.every_epochs), "1 or more");
  }
  if (config.kind == ScheduleKind::kPlateau && config.patience < 1) {
    return out_of_range("patience", static_cast<double>(config.patience), "1 or more");
  }
  return {};
}

Result<double> find(std::span<const StateValue> values, std::string_view name) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [name](const StateValue& entry) { return entry.name == name; });
  if (found == values.end()) {
    return Error(Code::kCorrupt, fmt::format("the schedule's state has no value \"{}\"", name));
  }
  return found->value;
}

}  // namespace

Result<Schedule> Schedule::create(const ScheduleConfig& config, double lr, Horizon horizon) {
  TANDEM_CHECK(lr >= 0 && horizon.steps_per_epoch >= 1 && horizon.total_steps >= 1);
  TANDEM_TRY(check(config, lr));
  return Schedule(config, lr, horizon);
}

double Schedule::lr_at(std::int64_t step) const {
  TANDEM_CHECK(step >= 0);
  const double lr = decayed(step);
  if (step >= config_.warmup_steps) return lr;
  return lr * static_cast<double>(step + 1) / static_cast<double>(config_.warmup_steps);
}

double Schedule::decayed(std::int64_t step) const {
  switch (config_.kind) {
    case ScheduleKind::kConstant:
      return lr_;
    case ScheduleKind::kStep:
      return lr_ * power(config_.gamma, step / horizon_.steps_per_epoch / config_.every_epochs);
    case ScheduleKind::kCosine: {
      if (step <= config_.warmup_steps) return lr_;
      if (step >= horizon_.total_steps) return config_.min_lr;
      const double turn = static_cast<double>(step - config_.warmup_steps) /
                          static_cast<double>(horizon_.total_steps - config_.warmup_steps);
      return config_.min_lr + (lr_ - config_.min_lr) * (1 + cos_pi(turn)) / 2;
    }
    case ScheduleKind::kPlateau:
      return std::max(lr_ * factor_, config_.min_lr);
  }
  TANDEM_CHECK(false && "a ScheduleKind without a rate");
  return lr_;
}

bool Schedule::observe(double loss) {
  if (config_.kind != ScheduleKind::kPlateau) return false;
  if (loss < best_) {
    best_ = loss;
    bad_ = 0;
    return false;
  }
  if (++bad_ < config_.patience) return false;
  bad_ = 0;
  const double before = std::max(lr_ * factor_, config_.min_lr);
  if (before <= config_.min_lr) return false;
  factor_ *= config_.gamma;
  return std::max(lr_ * factor_, config_.min_lr) < before;
}

std::array<StateValue, 3> Schedule::state() const {
  return {{{"best", best_}, {"bad", static_cast<double>(bad_)}, {"factor", factor_}}};
}

Status Schedule::restore(std::span<const StateValue> values) {
  TANDEM_ASSIGN(const double best, find(values, "best"));
  TANDEM_ASSIGN(const double bad, find(values, "bad"));
  TANDEM_ASSIGN(const double factor, find(values, "factor"));
  // 2^53: whole numbers up to there are exact in a double.
  if (std::isnan(best) || !(bad >= 0 && bad <= 0x1p53 && bad == std::floor(bad)) ||
      !(factor >= 0 && factor <= 1)) {
    return Error(Code::kCorrupt,
                 fmt::format("the schedule's state is impossible: best {}, bad {}, factor {}", best,
                             bad, factor));
  }
  best_ = best;
  bad_ = static_cast<std::int64_t>(bad);
  factor_ = factor;
  return {};
}

}  // namespace tandem::optim
