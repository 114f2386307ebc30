// Samples without labels, as predict reads them: an IDX, npy or CSV file for a trained model, or a
// prompt for a character model. Nothing is learnt here: the model's own Spec and Encoding are
// applied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace tandem::data {

// Reads samples for a model that was trained on `spec` and `encoding`. The format is recognised by
// content (gzip, IDX, npy; anything else is CSV). The data set's batches have inputs and no
// targets.
//
// Arrays: one sample after another in the model's shape, channels first or last, or flat; an array
// of exactly one sample may leave out the first dimension. Numbers are on the same raw scale as
// those of the training files. Tables: columns are found by name when both files have a header, by
// place otherwise; the label's column may be there and is ignored, and so are columns that the
// model does not know. A category that the training part did not have becomes zeros.
Result<std::shared_ptr<const Dataset>> read_inputs(const std::filesystem::path& path,
                                                   const Spec& spec, const Encoding& encoding);

// The token numbers of a prompt. kInvalidArgument when it is not UTF-8 or has a character that the
// model never saw. REQUIRES: spec.input is kTokens.
Result<std::vector<std::int32_t>> encode_prompt(std::string_view prompt, const Spec& spec);

}  // namespace tandem::data
