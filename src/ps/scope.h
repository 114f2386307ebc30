// What of a job's vector travels in a step, and how it is cut, by the plan that every process has:
// all of it; or only what is trained, where tables go row by row (ps/row_round.h) and the rest in
// pieces. Sums behind the parameters always travel. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "ps/pieces.h"
#include "ps/plan.h"

namespace tandem::ps {

// A slice for each server. They split no row of a table.
std::vector<Bucket> slices_of(const Plan& plan, std::size_t servers);

// The rows of tables that go with a slice: those in it, or by key those of a share.
std::vector<RowRange> rows_of(const Plan& plan, const Bucket& slice, const KeyShare& share);

// What is trained and in no table, ascending.
std::vector<Bucket> trained_in_pieces(const Plan& plan);
// What travels in pieces, ascending: that and all sums, or everything.
std::vector<Bucket> scope_of(const Plan& plan);

// The pieces of a slice in the order in which they are pushed. There is at least one in every slice
// that holds something and no rows: by it the server learns of the step.
std::vector<Piece> pieces_of(const Plan& plan, const Bucket& slice);

}  // namespace tandem::ps
