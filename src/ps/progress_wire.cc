#include "ps/progress_wire.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem::ps {

wire::PsProgress to_wire(const TaskProgress& progress) {
  wire::PsProgress message;
  message.set_from(progress.from());
  message.set_begun_below(progress.begun_below());
  message.set_updates(progress.updates());
  std::int64_t task = progress.from() * progress.lanes();
  message.set_done_below(task);
  for (const std::uint32_t pieces : progress.applied()) {
    if (pieces < progress.pieces()) {
      if (pieces > 0) {
        wire::PsPart& part = *message.add_parts();
        part.set_task(task);
        part.set_pieces(pieces);
      }
    } else if (task == message.done_below()) {
      message.set_done_below(task + 1);
    } else {
      message.add_done(task);
    }
    ++task;
  }
  return message;
}

Result<TaskProgress> from_wire(const wire::PsProgress& message, std::int64_t lanes,
                               std::size_t pieces) {
  const Error wrong(Code::kInvalidArgument, "a progress of tasks makes no sense");
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
  if (message.from() < 0 || message.from() > kMostSteps) return wrong;
  const std::int64_t first = message.from() * lanes, end = message.begun_below();
  if (end < first || end - first > kMostTasks || message.done_below() < first ||
      message.done_below() > end)
    return wrong;
  std::vector<std::uint32_t> applied(static_cast<std::size_t>(end - first));
  const auto all = static_cast<std::uint32_t>(pieces);
  std::fill_n(applied.begin(), message.done_below() - first, all);
  const auto set = [&](std::int64_t task, std::uint32_t count) {
    if (task < first || task >= end || count > all) return false;
    applied[static_cast<std::size_t>(task - first)] = count;
    return true;
  };
  for (const std::int64_t task : message.done()) {
    if (!set(task, all)) return wrong;
  }
  for (const wire::PsPart& part : message.parts()) {
    if (!set(part.task(), part.pieces())) return wrong;
  }
  return TaskProgress(message.from(), lanes, pieces, std::move(applied));
}

wire::PsTally to_wire(const TaskTally& tally) {
  wire::PsTally message;
  message.set_loss(tally.loss);
  message.set_samples(tally.samples);
  for (const std::uint64_t count : tally.staleness.by_number()) message.add_staleness(count);
  for (const std::uint64_t count : tally.missed.by_number()) message.add_missed(count);
  for (const std::int64_t task : tally.dropped) message.add_dropped(task);
  return message;
}

TaskTally from_wire(const wire::PsTally& message) {
  return {.loss = message.loss(),
          .samples = message.samples(),
          .staleness = Counts({message.staleness().begin(), message.staleness().end()}),
          .missed = Counts({message.missed().begin(), message.missed().end()}),
          .dropped = {message.dropped().begin(), message.dropped().end()}};
}

}  // namespace tandem::ps
