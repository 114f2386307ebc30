// Collectives between processes of one host, in memory that they share (collective/arena.h). What
// lies in the arena is reduced in place, each rank summing its slice straight from the others'
// memory; anything else passes through staging memory.
#pragma once

#include <memory>

#include "base/result.h"
#include "collective/arena.h"
#include "collective/engine.h"

namespace tandem::collective {

// Every rank of the host calls this with the same arena; returns when all have.
// `membership.members` need not know the pids yet. The arena must not have been used by another
// group.
Result<std::unique_ptr<Engine>> make_shm_engine(std::shared_ptr<const Arena> arena,
                                                Membership membership, Deadline deadline);

}  // namespace tandem::collective
