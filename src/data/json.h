// Spec and Encoding as JSON text, so that they can be stored with a model. What is read back is
// validated completely: the text may come from a damaged or hostile file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "data/dataset.h"

namespace tandem::data {

std::string to_json(const Spec& spec);
std::string to_json(const Encoding& encoding);

// kCorrupt when the text is no JSON, lacks a field or holds what no data set could have given.
Result<Spec> spec_from_json(std::string_view text);
Result<Encoding> encoding_from_json(std::string_view text);

}  // namespace tandem::data
