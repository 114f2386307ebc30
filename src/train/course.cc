#include "train/course.h"

#include <string>
#include <vector>

namespace tandem::train {
namespace {

// Before the names of the schedule's numbers.
const std::string kSchedule = "schedule.";

}  // namespace

Numbers Course::numbers() const {
  Numbers numbers = {{"step", static_cast<double>(step)},
                     {"judged", static_cast<double>(judged)},
                     {"samples", static_cast<double>(samples)},
                     {"dropped", static_cast<double>(dropped)},
                     {"exact", exact ? 1.0 : 0.0},
                     {"train_s", train_s},
                     {"loss_sum", loss_sum},
                     {"loss_steps", static_cast<double>(loss_steps)},
                     {"early_stop.bad", static_cast<double>(memory.bad)}};
  const auto keep = [&](const char* name, const std::optional<double>& value) {
    if (value) numbers[name] = *value;
  };
  keep("early_stop.best", memory.best);
  keep("early_stop.loss", memory.loss);
  keep("early_stop.loss_before", memory.loss_before);
  keep("early_stop.reached", memory.reached);
  keep("early_stop.divergence", memory.divergence);
  if (best) {
    numbers["best.step"] = static_cast<double>(best->first);
    numbers["best.value"] = best->second;
  }
  for (const optim::StateValue& value : schedule.state())
    numbers[kSchedule + std::string(value.name)] = value.value;
  return numbers;
}

Status Course::restore(const Numbers& numbers) {
  TANDEM_ASSIGN(step, count(numbers, "step"));
  TANDEM_ASSIGN(judged, count(numbers, "judged"));
  TANDEM_ASSIGN(samples, count(numbers, "samples"));
  // Older checkpoints have neither.
  dropped = numbers.contains("dropped") ? static_cast<std::int64_t>(numbers.at("dropped")) : 0;
  exact = !numbers.contains("exact") || numbers.at("exact") != 0;
  TANDEM_ASSIGN(train_s, number(numbers, "train_s"));
  TANDEM_ASSIGN(loss_sum, number(numbers, "loss_sum"));
  TANDEM_ASSIGN(loss_steps, count(numbers, "loss_steps"));
  memory = {};
  TANDEM_ASSIGN(memory.bad, count(numbers, "early_stop.bad"));
  const auto recall = [&](const char* name, std::optional<double>& value) {
    if (numbers.contains(name)) value = numbers.at(name);
  };
  recall("early_stop.best", memory.best);
  recall("early_stop.loss", memory.loss);
  recall("early_stop.loss_before", memory.loss_before);
  recall("early_stop.reached", memory.reached);
  recall("early_stop.divergence", memory.divergence);
  best.reset();
  if (numbers.contains("best.step")) {
    best.emplace();
    TANDEM_ASSIGN(best->first, count(numbers, "best.step"));
    TANDEM_ASSIGN(best->second, number(numbers, "best.value"));
  }
  std::vector<optim::StateValue> kept;
  for (const optim::StateValue& value : schedule.state()) {
    TANDEM_ASSIGN(const double was, number(numbers, kSchedule + std::string(value.name)));
    kept.push_back({value.name, was});
  }
  return schedule.restore(kept);
}

}  // namespace tandem::train
