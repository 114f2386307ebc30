// Continues a text with a character model, one character at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "data/dataset.h"
#include "model/model.h"

namespace tandem::train {

struct GenerateOptions {
  std::int64_t length = 200;  // Characters to add.
  double temperature = 1;     // 0: always the likeliest.
  std::uint64_t seed = 1;
};

// Calls `emit` with each new character. kInvalidArgument when the prompt is empty or has a
// character that the model never saw. REQUIRES: spec.input is kTokens.
Status generate(model::Model& model, const data::Spec& spec, std::string_view prompt,
                const GenerateOptions& options, const std::function<void(std::string_view)>& emit);

}  // namespace tandem::train
