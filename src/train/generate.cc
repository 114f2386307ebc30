#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "data/inputs.h"

namespace tandem::train {
namespace {

// Draws an index with probability p[i]^(1/temperature), renormalised.
std::int32_t draw(std::span<const float> probabilities, double temperature, Rng& rng) {
  const auto best =
      std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin();
  if (temperature <= 0) return static_cast<std::int32_t>(best);
  double sum = 0;
  for (float p : probabilities) sum += std::pow(static_cast<double>(p), 1 / temperature);
  double left = static_cast<double>(rng.uniform()) * sum;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    left -= std::pow(static_cast<double>(probabilities[i]), 1 / temperature);
    if (left < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace

Status generate(model::Model& model, const data::Spec& spec, std::string_view prompt,
                const GenerateOptions& options, const std::function<void(std::string_view)>& emit) {
  TANDEM_ASSIGN(std::vector<std::int32_t> text, data::encode_prompt(prompt, spec));
  if (text.empty())
    return Error(Code::kInvalidArgument, "the prompt is empty; give at least one character");
  const auto context = static_cast<std::size_t>(spec.shape[0]);
  const auto outputs = static_cast<std::size_t>(spec.classes);
  Rng rng({options.seed});
  data::Batch batch;
  batch.size = 1;
  batch.tokens.resize(context);
  for (std::int64_t i = 0; i < options.length; ++i) {
    // The last characters that fit; what stands behind them is not seen, because attention only
    // looks back.
    const std::size_t seen = std::min(text.size(), context);
    std::fill(batch.tokens.begin(), batch.tokens.end(), 0);
    std::copy(text.end() - static_cast<std::ptrdiff_t>(seen), text.end(), batch.tokens.begin());
    TANDEM_ASSIGN(const std::span<const float> rows, model.predict(batch));
    const std::int32_t next =
        draw(rows.subspan((seen - 1) * outputs, outputs), options.temperature, rng);
    text.push_back(next);
    emit(spec.class_names[static_cast<std::size_t>(next)]);
  }
  return {};
}

}  // namespace tandem::train
