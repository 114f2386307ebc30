// One step at a server: which pieces of which partial sums have come, and where they lie. A piece
// is complete when it has come of every partial sum; in which order pieces come is up to the
// workers. Bookkeeping only; belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/tree.h"
#include "ps/message.h"
#include "ps/pieces.h"

namespace tandem::ps {

class Round {
 public:
  Round(std::vector<Piece> pieces, std::vector<collective::Partial> partials);

  const std::vector<Piece>& pieces() const { return pieces_; }
  const std::vector<collective::Partial>& partials() const { return partials_; }

  // Whether this push of worker number `worker` may come now. kInvalidArgument says why not.
  Status check(const Header& push, std::int64_t worker, std::int64_t steps_done) const;
  // Its floats lie there until next(). REQUIRES: check() said yes.
  void add(const Header& push, const float* floats);

  // The learning rate that comes with the pushes; nothing before the first.
  std::optional<double> lr() const { return lr_; }
  // Pieces that have come of every partial sum, in the order in which that came about.
  std::span<const std::size_t> complete() const { return complete_; }
  // Where the floats of a complete piece lie, by partial sum.
  std::span<const float* const> sources(std::size_t piece) const {
    return std::span(sources_).subspan(piece * partials_.size(), partials_.size());
  }

  // The step is over, or given up.
  void next();

 private:
  const std::vector<Piece> pieces_;
  const std::vector<collective::Partial> partials_;
  std::vector<bool> came_;             // By piece, then partial sum;
  std::vector<const float*> sources_;  // where it lies.
  std::vector<std::size_t> missing_;   // Partial sums, by piece.
  std::vector<std::size_t> complete_;
  std::optional<double> lr_;
};

}  // namespace tandem::ps
