// Who computes what, when workers do not wait for each other: hands out the tasks of a stretch of
// steps, each to the next worker that asks. A task is one lane of one step, numbered
// step * lanes + lane; it is handed out once and counts once, so every sample does. A fast worker
// gets more of them than a slow one.
//
// With a quorum a step is closed when so many of its lanes are complete: these count, the others
// are dropped, and only then the next step's tasks are handed out. Whoever gets one is told what
// was closed, and tells the servers.
//
// A stretch ends early at the end of a step when a worker wishes it, and only when all tasks that
// were handed out are complete: then all workers stand after the same step. Pure bookkeeping, told
// what happens by the last server (ps/service.h). Belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"

namespace tandem::ps {

// How many tasks a stretch has at most: each costs some bytes at every server.
inline constexpr std::int64_t kMostTasks = std::int64_t{1} << 22;

struct Stretch {
  std::int64_t from = 0, to = 0;  // Steps; the end is exclusive.
  std::int64_t lanes = 1;
  // How many steps a task's parameters may be behind; nothing: any number.
  std::optional<std::int64_t> staleness = {};
  // Tasks below may have been begun by workers that are gone: the stretch does not end before them.
  std::int64_t begun = 0;
  // Tasks below are done already.
  std::int64_t done_below = 0;
  std::int64_t quorum = 0;  // Lanes that close a step; 0: steps are not closed.
};

// A step and those of its lanes that count.
struct ClosedStep {
  std::int64_t step = 0;
  std::vector<std::int64_t> lanes;
};

// How often each number was seen; those beyond the last are counted with it.
class Counts {
 public:
  Counts() = default;
  // As by_number() of another.
  explicit Counts(std::vector<std::uint64_t> counts);

  void add(std::int64_t number);
  const std::vector<std::uint64_t>& by_number() const { return counts_; }

 private:
  static constexpr std::int64_t kMost = 255;

  std::vector<std::uint64_t> counts_;
};

// What is known of the tasks of a stretch that were completed. Outlives generations.
struct TaskTally {
  double loss = 0;  // Sums over their samples.
  std::int64_t samples = 0;
  // By how many steps the parameters of tasks were behind when they were handed out, and how many
  // updates of others each of them missed until it was complete.
  Counts staleness, missed;
  std::vector<std::int64_t> dropped;  // Tasks that are not in the step that was closed.
};

class Dispenser {
 public:
  struct Answer {
    int worker = 0;
    std::int64_t task = -1;  // -1: the stretch is over.
    bool pull = false;       // The parameters that the worker has are too old for it,
    bool closes = false;     // because closed() is news to it.
  };

  // `done` are more tasks of the stretch that were completed before, as by workers that are gone.
  // `tally` goes on with what it has, and must outlive this.
  // REQUIRES: 0 <= from <= to; lanes > 0; at most kMostTasks; staleness >= 0.
  Dispenser(const Stretch& stretch, const std::vector<std::int64_t>& done, TaskTally& tally);

  // kInvalidArgument when the worker has no such task, or asked already.
  Status complete(int worker, std::int64_t task, double loss, std::int64_t samples);
  Status ask(int worker);
  // The stretch ends with the step that is under way. `wish` is passed on to everybody.
  void end_soon(std::uint16_t wish);

  // Who gets what now; in the order in which they asked.
  std::vector<Answer> take_answers();

  std::int64_t end() const { return end_ / stretch_.lanes; }  // The step after the last.
  // The step that was closed last; nothing before the first.
  const std::optional<ClosedStep>& closed() const { return closed_; }
  std::uint16_t wish() const { return wish_; }
  // All tasks below are complete.
  std::int64_t below() const { return below_; }
  const TaskTally& tally() const { return tally_; }

 private:
  struct Worker {
    bool asks = false;
    std::int64_t task = -1;
    std::int64_t fresh = 0;       // Its parameters have all tasks below.
    std::int64_t next_fresh = 0;  // Those that it gets with the results of its task do, too.
    std::int64_t seen = 0;        // Tasks that were complete when it got its own.
    std::int64_t told = 0;        // It knows of all closed steps below.
    std::int64_t behind = 0;      // Steps, of the parameters for its task.
  };

  void close();
  bool is_done(std::int64_t task) const;
  void skip_done();
  Answer hand_out(int worker);

  const Stretch stretch_;
  TaskTally& tally_;
  const std::int64_t first_;
  std::int64_t end_;   // Tasks.
  std::int64_t next_;  // The next to hand out.
  std::int64_t below_;
  std::vector<bool> done_;
  std::map<int, Worker> workers_;
  std::vector<int> waiting_;
  std::uint16_t wish_ = 0;
  std::int64_t completed_ = 0;

  // With a quorum.
  std::int64_t open_;               // The step that is not yet closed.
  std::vector<std::int64_t> came_;  // Its lanes that are complete.
  std::optional<ClosedStep> closed_;
};

}  // namespace tandem::ps
