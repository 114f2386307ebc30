// What a user may change of a job that was submitted: how many processes it has. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "job/job.h"

namespace tandem::cluster {

// What a job shall have from now on; what is not named stays.
struct Resizing {
  std::optional<std::int64_t> workers;
  std::optional<std::int64_t> servers;  // Parameter servers.
};

// Whether the job can have so many. kInvalidArgument says why not; `id` is what people call it.
Status check_resizing(const std::string& id, const job::Job& job, const Resizing& wanted);

}  // namespace tandem::cluster
