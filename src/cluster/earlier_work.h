// What a run did before it was interrupted, as its directory tells: for the report of one that ends
// without going on, such as a job that is cancelled while it waits after its master was restarted.
//
// No state; belongs to whoever has the directory.
#pragma once

#include "cluster/report.h"
#include "cluster/resume.h"
#include "cluster/run_directory.h"

namespace tandem::cluster {

// Adds the steps, epochs, samples and weights of the checkpoint from which the run would have gone
// on: `point`'s, or without one the newest whose files can be read. Only their headers are, so it
// takes no longer for a large model. Also the model, if it has these weights. A run without a
// checkpoint has nothing to go on from, and the report stays as it is.
void add_earlier_work(Report& report, const RunDirectory& directory, const ResumePoint* point);

}  // namespace tandem::cluster
