// Where the workers that a node starts find each other, and workers that other nodes start: memory
// that they inherit, or a store (collective/store.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cluster/child.h"
#include "collective/arena.h"
#include "collective/join.h"
#include "collective/store.h"
#include "job/job.h"

namespace tandem::cluster {

// For a store: nobody else can know it.
Result<std::string> random_token();

class Meeting {
 public:
  // Whether create() makes sense at all; an Error says what to do instead.
  static Status check(const job::Job& job, const std::optional<collective::JoinOptions>& place);

  // For the job's workers. `place` tells when a launcher made this process one rank of many: then
  // one worker is started here, with that rank.
  static Result<Meeting> create(const job::Job& job,
                                const std::optional<collective::JoinOptions>& place);

  // Workers that this node starts.
  int workers() const { return local_; }

  // Adds what worker number `number` of this node must be told.
  void introduce(int number, Command& command) const;

 private:
  Meeting() = default;

  int local_ = 1;
  collective::JoinOptions join_;  // Of our first worker.
  std::unique_ptr<collective::Arena> arena_;
  std::unique_ptr<collective::StoreServer> store_;
};

}  // namespace tandem::cluster
