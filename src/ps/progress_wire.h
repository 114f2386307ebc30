// How far tasks have come, and what is known of them, as workers and servers tell each other.
// Comes from another process, so nothing in it is believed before it was checked. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "ps/dispenser.h"
#include "ps/task_progress.h"
#include "wire/ps.pb.h"

namespace tandem::ps {

wire::PsProgress to_wire(const TaskProgress& progress);
// kInvalidArgument when it makes no sense.
Result<TaskProgress> from_wire(const wire::PsProgress& message, std::int64_t lanes,
                               std::size_t pieces);

wire::PsTally to_wire(const TaskTally& tally);
TaskTally from_wire(const wire::PsTally& message);

}  // namespace tandem::ps
