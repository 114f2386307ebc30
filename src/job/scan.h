// A look at a TOML text before toml++ sees it: for keys with parts without end, which it does not
// survive since it frees tables recursively, and for what deserves a better message than its own.
// Pure; one pass.
#pragma once

#include <optional>
#include <string_view>

#include "job/mistake.h"

namespace tandem::job {

// The first mistake of `text`, or nothing:
//   - bytes that are not UTF-8;
//   - outside of strings and comments: anything but printable ASCII, tabs and line ends;
//   - strings over several lines, which no key of a job needs;
//   - a key with more than 16 parts.
// A text without such a mistake may have any other. The mistake's place is in text Place::kFile.
std::optional<Mistake> scan(std::string_view text);

}  // namespace tandem::job
