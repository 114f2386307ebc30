#include "converge/judge.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem::converge {
namespace {

Memory remember(const Criteria& criteria, Memory memory, const Measured& measured) {
  const bool by_accuracy = criteria.metric == "accuracy";
  const double metric = by_accuracy ? measured.accuracy.value_or(0) : measured.loss;
  const double value = by_accuracy ? metric : -metric;
  if (!memory.best || value > *memory.best + criteria.min_delta) {
    memory.best = value;
    memory.bad = 0;
  } else {
    ++memory.bad;
  }
  memory.loss_before = memory.loss;
  memory.loss = measured.loss;
  if (measured.divergence) memory.divergence = measured.divergence;
  const bool is_good = by_accuracy ? metric >= criteria.target : metric <= criteria.target;
  if (criteria.target > 0 && is_good) memory.reached = metric;
  return memory;
}

// Why the model is as good as it gets, if it is.
std::optional<std::string> reason(const Criteria& criteria, const Memory& memory) {
  if (criteria.target > 0 && memory.reached)
    return fmt::format("{} reached {:.6g}, as good as the target {:.6g}", criteria.metric,
                       *memory.reached, criteria.target);
  if (criteria.change > 0 && memory.loss && memory.loss_before) {
    const double change = std::abs(*memory.loss - *memory.loss_before);
    if (change < criteria.change * std::abs(*memory.loss_before)) {
      return fmt::format(
          "the loss changed from {:.6g} to {:.6g}, by less than a fraction of {:.6g}",
          *memory.loss_before, *memory.loss, criteria.change);
    }
  }
  if (criteria.patience > 0 && memory.best && memory.bad >= criteria.patience) {
    return fmt::format("{} did not get better than {:.6g} in {} evaluations", criteria.metric,
                       std::abs(*memory.best), memory.bad);
  }
  if (criteria.divergence > 0 && memory.divergence && *memory.divergence <= criteria.divergence) {
    return fmt::format("the nodes' models differ by {:.6g}, by at most {:.6g}", *memory.divergence,
                       criteria.divergence);
  }
  return {};
}

}  // namespace

Criteria criteria_of(const job::Train& train) {
  Criteria criteria;
  criteria.patience = train.early_stop_patience;
  criteria.metric = train.early_stop_metric;
  criteria.min_delta = train.early_stop_min_delta;
  criteria.target = train.early_stop_target;
  criteria.change = train.early_stop_change;
  return criteria;
}

Verdict judge(const Criteria& criteria, const Question& question) {
  Verdict verdict;
  verdict.memory =
      question.measured ? remember(criteria, question.memory, *question.measured) : question.memory;
  if (auto why = reason(criteria, verdict.memory)) {
    verdict.ending = Ending::kConverged;
    verdict.reason = std::move(*why);
  } else if (question.step >= question.steps) {
    verdict.ending = Ending::kFinished;
    verdict.reason = fmt::format("{} step{} done", question.steps, question.steps == 1 ? "" : "s");
  }
  return verdict;
}

}  // namespace tandem::converge
