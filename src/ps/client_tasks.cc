// The part of Client for workers that do not wait for each other.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "ps/client.h"
#include "ps/dispenser.h"

namespace tandem::ps {

Status Client::begin_stretch(const StretchPlan& plan, Deadline deadline) {
  const std::int64_t lanes = config_.plan.lanes, from = plan.from;
  wire::PsStretch stretch;
  stretch.set_from(from);
  stretch.set_to(std::min(plan.to, from + kMostTasks / lanes));
  if (plan.staleness) stretch.set_staleness(*plan.staleness);
  stretch.set_quorum(plan.quorum);
  stretch.set_done_below(from * lanes);
  // What workers that are gone have completed is complete when it is so at every server.
  if (std::exchange(goes_on_, false)) {
    std::int64_t below = stretch.to() * lanes, begun = 0;
    std::map<std::int64_t, std::size_t> done;
    std::vector<const wire::PsProgress*> slices;
    for (std::size_t slice = 0; slice < config_.servers.size(); ++slice) {
      // Others that hold it have got what the furthest has.
      const ServerEnd& server = furthest(slice, from);
      if (server.is_idle()) continue;
      slices.push_back(&server.begun()->progress());
      below = std::min(below, slices.back()->done_below());
      begun = std::max(begun, slices.back()->begun_below());
    }
    below = std::max(below, from * lanes);
    for (const wire::PsProgress* const progress : slices) {
      for (std::int64_t task = below; task < progress->done_below(); ++task) ++done[task];
      for (const std::int64_t task : progress->done()) ++done[task];
    }
    stretch.set_done_below(below);
    stretch.set_begun_below(begun);
    for (const auto& [task, times] : done) {
      if (times == slices.size()) stretch.add_done(task);
    }
  }
  ServerEnd& dispenser = *servers_[config_.servers.size() - 1];
  dispenser.set_stretch(stretch);
  return await([&] { return dispenser.is_using(from); }, "take the tasks", deadline);
}

Status Client::pull(Deadline deadline) {
  begin(kNoTask, 0);
  for (auto& server : servers_) {
    if (!server->is_idle()) server->pull();
  }
  return await_results(deadline);
}

Result<TaskGiven> Client::next_task(const TaskDone& done, Deadline deadline) {
  ServerEnd& dispenser = *servers_[config_.servers.size() - 1];
  dispenser.ask_for_task({.kind = Kind::kTask,
                          .code = done.wish,
                          .step = done.task,
                          .place = static_cast<std::uint64_t>(done.samples),
                          .number = done.loss});
  TANDEM_TRY(
      await([&] { return dispenser.task() != nullptr || dispenser.stretch_end() != nullptr; },
            "hand out a task", deadline));
  TaskGiven given;
  const auto tell = [&](const wire::PsClosed& closed) {
    if (closed.lanes_size() == 0) return;
    for (auto& server : servers_) {
      if (!server->is_idle())
        server->connection().send_text({.kind = Kind::kClose}, closed.SerializeAsString());
    }
  };
  // Should the server that hands out tasks die, those that have copies of its slice go on counting.
  const auto keep = [&](const wire::PsTally& tally) {
    const std::size_t count = config_.servers.size();
    for (std::size_t i = 2 * count - 1; i < servers_.size(); i += count)
      servers_[i]->connection().send_text({.kind = Kind::kTally}, tally.SerializeAsString());
  };
  if (const wire::PsStretchEnd* const end = dispenser.stretch_end()) {
    keep(end->tally());
    tell(end->closed());
    given.end = *end;
    return given;
  }
  keep(dispenser.news().tally());
  tell(dispenser.news().closed());
  const Header& task = *dispenser.task();
  given.task = task.step;
  given.pull = (task.code & kPullFirst) != 0;
  given.below = static_cast<std::int64_t>(task.place);
  given.loss = task.number;
  given.samples = static_cast<std::int64_t>(task.sequence);
  return given;
}

}  // namespace tandem::ps
