// How a run's workers are started, and how long a node waits for them. Pure functions.
#pragma once

#include "cluster/child.h"
#include "cluster/run.h"
#include "cluster/supervision.h"

namespace tandem::cluster {

// As both programs take them; none for none.
std::vector<std::string> tls_arguments(const net::TlsFiles& files);

// Without what tells it its place among the others.
Command worker_command(const RunRequest& request, const RunDirectory& directory);

// A parameter server's. Workers reach it at `address` of this host; "": at any.
Command server_command(const RunRequest& request, const std::string& address);
// Nothing takes a server long but a step's sums, so silence means that it hangs.
Limits server_limits(const RunRequest& request);

// A worker that waits for another says nothing, and must be the one to say who is late.
Limits limits_of(const RunRequest& request);

}  // namespace tandem::cluster
