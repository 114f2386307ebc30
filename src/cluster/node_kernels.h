// Which kernels the nodes of a cluster can run. All workers of a job use the same ones.
#pragma once

#include "base/cpu.h"
#include "cluster/peers.h"

namespace tandem::cluster {

// The best that every node has.
Kernels common_kernels(const Peers& peers);
bool can_run(const wire::NodeHello& node, const Kernels& kernels);

}  // namespace tandem::cluster
