#include <fmt/format.h>

#include <algorithm>

#include "world.h"

namespace tandem::simulation {
namespace {

using cluster::Leaving;
using State = Worker::State;

constexpr int kPatience_ms = 5000;

}  // namespace

void World::plan_for(Group& group, milliseconds later, void (World::*what)(Group&)) {
  plan(later, [this, &group, turn = ++group.turn, what] {
    if (group.turn == turn && group.phase != Group::Phase::kOver) (this->*what)(group);
  });
}

// Whether all members are there and awake. Those that miss one leave; those that wait for one give
// up after their patience.
bool World::is_whole(Group& group) {
  const auto is_gone = [](const Worker* member) { return member->state == State::kGone; };
  const auto is_frozen = [](const Worker* member) { return member->frozen; };
  if (std::any_of(group.members.begin(), group.members.end(), is_gone)) {
    break_up(group, Leaving::kPeerLost, milliseconds(0));
    return false;
  }
  if (std::none_of(group.members.begin(), group.members.end(), is_frozen)) return true;
  for (Worker* member : group.members) {
    if (member->frozen) continue;
    ++member->turn;
    when(*member, dice_.time(kPatience_ms, kPatience_ms + 500),
         [this, member] { leave(*member, Leaving::kTimeout); });
  }
  return false;
}

void World::break_up(Group& group, Leaving why, milliseconds after) {
  group.phase = Group::Phase::kOver;
  ++group.turn;
  for (Worker* member : group.members) {
    if (member->state == State::kGone) continue;
    ++member->turn;
    when(*member, after + dice_.time(0, 30), [this, member, why] { leave(*member, why); });
  }
}

// All take over the state of the one that is furthest.
void World::meet(Group& group) {
  for (Worker* member : group.members) {
    if (member->state == State::kJoining) member->state = State::kInGroup;
  }
  if (!is_whole(group)) return;
  Job& job = jobs_.at(group.job);
  std::int64_t furthest = -1;
  for (const Worker* member : group.members) furthest = std::max(furthest, member->step);
  if (furthest < 0 && !group.anew) return fail("nobody has a state, and nobody was told so");
  if (furthest < 0) {
    furthest = job.checkpoint;
    job.done = furthest;
  }
  if (furthest < job.done)
    return fail(fmt::format("generation {} goes back from step {} to {}", group.generation,
                            job.done, furthest));
  // What one alone had of the last step is now everybody's.
  group.step = job.done = furthest;
  group.phase = Group::Phase::kTraining;
  for (Worker* member : group.members) {
    ++member->turn;
    member->step = furthest;
    tempt_fate(*member);
  }
  begin_step(group);
}

void World::begin_step(Group& group) {
  if (!is_whole(group)) return;
  group.wants_stop = group.wants_regroup = false;
  for (Worker* member : group.members) {
    ++member->turn;
    group.wants_stop |= member->stop_asked;
    group.wants_regroup |= member->next.has_value();
  }
  const bool nothing_left = group.step >= jobs_.at(group.job).steps;
  if (nothing_left || (group.wants_stop && group.size == 1)) return begin_finish(group);
  plan_for(group, dice_.time(10, 150), &World::end_step);
}

void World::end_step(Group& group) {
  Job& job = jobs_.at(group.job);
  const bool somebody_died = std::any_of(group.members.begin(), group.members.end(),
                                         [](const Worker* m) { return m->state == State::kGone; });
  if (somebody_died && dice_.percent(50)) {
    // It died after it had given its share: some of the others have the step, some have not.
    for (Worker* member : group.members) {
      if (member->state == State::kGone || member->frozen || dice_.percent(50)) continue;
      member->step = group.step + 1;
      say_placed(*member);
    }
  }
  if (!is_whole(group)) return;
  if (group.generation < job.last_generation)
    return fail(fmt::format("generation {} makes a step after generation {} did", group.generation,
                            job.last_generation));
  if (static_cast<int>(group.members.size()) != group.size)
    return fail(fmt::format("a part of generation {} makes a step", group.generation));
  job.last_generation = group.generation;
  job.done = std::max(job.done, ++group.step);
  constexpr std::int64_t kCheckpointEvery = 10;
  if (group.step % kCheckpointEvery == 0) job.checkpoint = group.step;
  for (Worker* member : group.members) {
    member->step = group.step;
    say_placed(*member);
  }
  if (group.wants_stop) return begin_finish(group);
  if (group.wants_regroup) return break_up(group, Leaving::kAgreed, milliseconds(0));
  begin_step(group);
}

void World::begin_finish(Group& group) {
  group.phase = Group::Phase::kFinishing;
  for (Worker* member : group.members) {
    ++member->turn;
    tempt_fate(*member);
  }
  plan_for(group, dice_.time(5, 200), &World::end_finish);
}

void World::end_finish(Group& group) {
  const Job& job = jobs_.at(group.job);
  if (group.step < job.steps && !job.cancelled)
    return fail(fmt::format("generation {} stops at step {} of {} though nobody cancelled",
                            group.generation, group.step, job.steps));
  jobs_.at(group.job).checkpoint = group.step;
  const bool somebody_died = std::any_of(group.members.begin(), group.members.end(),
                                         [](const Worker* m) { return m->state == State::kGone; });
  if (somebody_died && dice_.percent(50)) {
    // It died in the barrier: some of the others have passed it, some have not.
    for (Worker* member : group.members) {
      if (member->state != State::kGone && !member->frozen && dice_.percent(50))
        say_finished(*member);
    }
    std::erase_if(group.members, [](const Worker* m) { return m->said_finished; });
    return break_up(group, Leaving::kPeerLost, milliseconds(0));
  }
  if (!is_whole(group)) return;
  group.phase = Group::Phase::kOver;
  for (Worker* member : group.members) say_finished(*member);
}

void World::say_placed(Worker& worker) {
  if (std::exchange(worker.placed, true)) return;
  tell(worker, [this, &worker, generation = worker.place.generation] {
    worker.known_to_step = true;
    apply(coordinator_.placed(worker.job, worker.number, generation, agenda_.now()));
  });
}

void World::say_finished(Worker& worker) {
  say_placed(worker);
  ++worker.turn;
  worker.state = State::kLeaving;
  worker.said_finished = true;
  worker.supervision->ending(agenda_.now());
  watch(worker);
  tell(worker, [this, &worker] {
    jobs_.at(worker.job).finished = true;
    apply(coordinator_.finished(worker.job, worker.number, agenda_.now()));
  });
  tempt_fate(worker);
  when(worker, dice_.time(0, 200), [this, &worker] { exit(worker); });
}

}  // namespace tandem::simulation
