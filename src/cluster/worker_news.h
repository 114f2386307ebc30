// Between what workers say and what the coordinator understands. Pure functions.
#pragma once

#include "base/result.h"
#include "cluster/coordinator.h"
#include "job/job.h"
#include "wire/frame.h"

namespace tandem::cluster {

// Tells the coordinator of a worker's message, if it is anything to it. kCorrupt when that cannot
// be understood.
Result<JobActions> tell(Coordinator& coordinator, JobId job, int worker,
                        const wire::WorkerMessage& message, TimePoint now);

wire::WorkerMessage to_wire(const AnswerWorker& answer);

// What a job asks for.
JobPlan plan_of(const job::Job& job, int priority);

}  // namespace tandem::cluster
