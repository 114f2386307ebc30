// Questions and verdicts as they travel between a worker and whoever placed it (wire/worker.proto).
// Pure functions. A question has a number, which its verdict repeats: it may be asked again.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "converge/judge.h"
#include "wire/worker.pb.h"

namespace tandem::converge {

wire::Question to_wire(const Question& question, std::uint64_t number);
wire::Verdict to_wire(const Verdict& verdict, std::uint64_t number);

// kCorrupt when a number is out of its range, or the verdict is of no kind that there is.
Result<Question> from_wire(const wire::Question& question);
Result<Verdict> from_wire(const wire::Verdict& verdict);

}  // namespace tandem::converge
