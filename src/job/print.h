// A job as TOML: what `--print-job` shows and a run's job.toml holds.
#pragma once

#include <string>

#include "job/job.h"

namespace tandem::job {

// Every key that applies to the job, with its value, in the schema's order; keys that hold nothing
// are left out. Parsing the text gives the same job. REQUIRES: the job came from parse().
std::string print(const Job& job);

}  // namespace tandem::job
