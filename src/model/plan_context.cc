#include "model/plan_context.h"

#include <numeric>
#include <utility>

namespace tandem::model {

std::int64_t Activation::rows() const {
  return std::accumulate(shape.begin(), shape.end() - 1, std::int64_t{1}, std::multiplies<>());
}

std::int64_t PlanContext::offset(const std::string& name) const {
  for (const arch::Slot& slot : blueprint_.slots) {
    if (slot.name == name) return slot.offset;
  }
  return -1;
}

Activation PlanContext::make(std::vector<std::int64_t> shape, Gradient gradient) {
  Activation result;
  result.shape = std::move(shape);
  result.floats = static_cast<std::size_t>(result.rows() * result.columns());
  result.value = workspace_.take(result.floats);
  if (mode_ == Mode::kTrain && gradient == Gradient::kWanted)
    result.gradient = workspace_.take(result.floats);
  return result;
}

Activation PlanContext::make_image(std::vector<std::int64_t> shape, const dnnl::memory::desc& desc,
                                   Gradient gradient) {
  Activation result;
  result.shape = std::move(shape);
  result.desc = desc;
  result.floats = floats_of(desc);
  result.value = workspace_.take(result.floats);
  if (mode_ == Mode::kTrain && gradient == Gradient::kWanted)
    result.gradient = workspace_.take(result.floats);
  return result;
}

}  // namespace tandem::model
