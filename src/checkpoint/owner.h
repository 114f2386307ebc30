// Whose a run directory is: a word in its file `owner`. Whoever starts workers afresh, because none
// is left that it knows of, writes a new word and tells it to them. Workers of before that live
// nevertheless, on a machine that has lost its master, find another word than theirs and write
// nothing more. docs/decisions/0010-owner-of-a-run.md tells why.
//
// No state; any thread.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace tandem::checkpoint {

Status set_owner(const std::filesystem::path& run, std::string_view owner);

// kDenied when the directory is another's. Without the file, as on machines that share no storage
// with whoever sets it, and with owner "" it is anybody's.
Status check_owner(const std::filesystem::path& run, std::string_view owner);

}  // namespace tandem::checkpoint
