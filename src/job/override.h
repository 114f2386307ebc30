// Overrides of the command line: `train.optimizer.lr=0.1` puts a value into the tree that was read
// from the job file.
#pragma once

#include <cstdint>
#include <string_view>

#include "job/document.h"
#include "job/mistake.h"
#include "job/schema.h"

namespace tandem::job {

// Sets one key of `root`, creating or replacing what is on the way. The value is TOML; where the
// schema wants a string, or a table that a word may stand for, quotes may be left out. Whether the
// key exists and the value fits is seen when the tree is read; only text that is no override at all
// is added to `mistakes` here.
void apply_override(const Schema& schema, std::string_view text, std::int32_t text_number,
                    Value& root, Mistakes& mistakes);

}  // namespace tandem::job
