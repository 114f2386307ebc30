// Who shares memory with whom. Plain functions.
#pragma once

#include <string>

namespace tandem::collective {

// This machine's name, for people.
std::string host_name();

// Processes with the same words can share memory: same boot of the same kernel, same processes in
// sight, same network (so that a container or namespace of its own counts as a host), same user.
std::string host_identity();

}  // namespace tandem::collective
