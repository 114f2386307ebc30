// The reference of the job file, made from the schema. docs/job-file.md holds this text; a test
// compares them.
#pragma once

#include <string>

namespace tandem::job {

// The whole of docs/job-file.md.
std::string reference_markdown();

}  // namespace tandem::job
