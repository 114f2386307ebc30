// Sums a small training step of two ranks of a host that have one partial sum each, for a plan
// in_pieces. Each computes its partial sum in memory of its own, copies it to a shared place when
// it is complete, and adds both for itself.
//
// A core that reads a line which another core has written takes it away from there: it may write
// the line at once, while the other core must fetch it back. So the ranks swap places after each
// step: each writes where it has just read, and nobody waits until the other has read the step
// before. Why copies: docs/decisions/0019-swapped-places.md.
#pragma once

#include <array>
#include <memory>

#include "collective/reducer.h"
#include "collective/shm_control.h"

namespace tandem::collective {

// `places` are shared memory for plan.floats each; `control` must outlive it.
// REQUIRES: two ranks with one partial sum each.
std::unique_ptr<Reducer> make_pair_reducer(ShmControl& control, ReducePlan plan,
                                           std::array<float*, 2> places);

}  // namespace tandem::collective
