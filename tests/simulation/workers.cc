#include <algorithm>
#include <utility>

#include "world.h"

namespace tandem::simulation {
namespace {

using cluster::Ending;
using cluster::Leaving;
using cluster::Order;

// As a node and a job give them, but shorter.
const cluster::Limits kLimits{.start = std::chrono::seconds(20),
                              .silence = std::chrono::seconds(30),
                              .grace = std::chrono::seconds(10)};
constexpr milliseconds kPatience{5000}, kLastWait{5000};
constexpr int kLook_ms = 50;

}  // namespace

// A message to the coordinator. Nothing comes of a node that is known to be gone.
void World::tell(Worker& worker, std::function<void()> message) {
  worker.last_from = std::max(worker.last_from, agenda_.now() + dice_.time(0, most_delay_ms_));
  agenda_.at(worker.last_from, [&worker, message = std::move(message)] {
    if (!worker.known_gone) message();
  });
}

// A message from the coordinator.
void World::order(Worker& worker, std::function<void()> message) {
  worker.last_to = std::max(worker.last_to, agenda_.now() + dice_.time(0, most_delay_ms_));
  agenda_.at(worker.last_to, [this, &worker, message = std::move(message)] {
    if (worker.state != Worker::State::kGone && nodes_.at(worker.node).up) message();
  });
}

// What the worker does then, unless it has begun another turn.
void World::when(Worker& worker, milliseconds later, std::function<void()> happening) {
  plan(later, [&worker, turn = worker.turn, happening = std::move(happening)] {
    if (worker.state == Worker::State::kGone || worker.turn != turn) return;
    if (worker.frozen) {
      worker.postponed.push_back([&worker, turn, happening] {
        if (worker.state != Worker::State::kGone && worker.turn == turn) happening();
      });
      return;
    }
    happening();
  });
}

void World::begin(Worker& worker) {
  worker.state = Worker::State::kStarting;
  worker.supervision.emplace(kLimits, agenda_.now());
  watch(worker);
  tempt_fate(worker);
  when(worker, dice_.time(50, 2000), [this, &worker] {
    worker.supervision->started(agenda_.now());
    tell(worker,
         [this, &worker] { apply(coordinator_.ready(worker.job, worker.number, agenda_.now())); });
    wait_for_place(worker);
  });
}

// The node's eye on it. A worker that is not frozen lets the node hear of it all the time.
void World::watch(Worker& worker) {
  const TimePoint deadline = worker.supervision->deadline();
  if (deadline == TimePoint::max()) return;
  agenda_.at(deadline, [this, &worker, deadline] {
    if (worker.state == Worker::State::kGone) return;
    if (worker.supervision->deadline() != deadline) return watch(worker);
    if (!worker.frozen) worker.supervision->heard(agenda_.now());
    obey(worker, worker.supervision->tick(agenda_.now()));
    watch(worker);
  });
}

void World::obey(Worker& worker, Order order) {
  if (order == Order::kKill) kill(worker);
  if (order != Order::kTerminate) return;
  // Nothing of it is heard while it is frozen.
  worker.stop_asked = true;
  if (worker.frozen) {
    worker.postponed.push_back([this, &worker] { stop(worker); });
  } else {
    stop(worker);
  }
}

void World::stop(Worker& worker) {
  if (worker.state == Worker::State::kStarting) return kill(worker);
  if (worker.state == Worker::State::kWaiting && !worker.next) wait_for_place(worker);
  if (worker.state == Worker::State::kJoining && worker.place.generation == 1)
    when(worker, dice_.time(0, kLook_ms), [this, &worker] {
      if (worker.state == Worker::State::kJoining) leave(worker, Leaving::kPeerLost);
    });
}

void World::receive(Worker& worker, const cluster::PlaceWorker& place) {
  if (worker.next && worker.next->generation >= place.generation)
    return fail("a place was followed by an older one");
  worker.next = place;
  if (worker.state == Worker::State::kWaiting) wait_for_place(worker);
  if (worker.state == Worker::State::kJoining)
    when(worker, dice_.time(0, kLook_ms), [this, &worker] {
      if (worker.state == Worker::State::kJoining) leave(worker, Leaving::kPeerLost);
    });
}

void World::wait_for_place(Worker& worker) {
  ++worker.turn;
  worker.state = Worker::State::kWaiting;
  if (worker.next) {
    when(worker, dice_.time(0, kLook_ms), [this, &worker] { join(worker); });
  } else if (worker.stop_asked) {
    const bool has_trained = worker.place.generation > 0;
    when(worker, has_trained ? kLastWait : dice_.time(0, kLook_ms),
         [this, &worker] { exit(worker); });
  }
}

void World::join(Worker& worker) {
  ++worker.turn;
  worker.state = Worker::State::kJoining;
  worker.placed = false;
  worker.place = *std::exchange(worker.next, std::nullopt);
  Group& group = groups_.at({worker.job, worker.place.generation});
  worker.group = &group;
  tempt_fate(worker);
  when(worker, kPatience + dice_.time(0, 500),
       [this, &worker] { leave(worker, Leaving::kTimeout); });
  if (group.phase != Group::Phase::kMeeting) return;
  group.members.push_back(&worker);
  if (static_cast<int>(group.members.size()) == group.size)
    plan_for(group, dice_.time(1, 30), &World::meet);
}

void World::leave(Worker& worker, Leaving why) {
  ++worker.turn;
  const std::uint64_t generation = worker.place.generation;
  tell(worker, [this, &worker, generation, why] {
    apply(coordinator_.left(worker.job, worker.number, generation, why, agenda_.now()));
  });
  Group& group = *std::exchange(worker.group, nullptr);
  // Without it the group can neither meet nor make a step.
  if (std::erase(group.members, &worker) > 0) {
    if (worker.state == Worker::State::kJoining) {
      group.phase = Group::Phase::kOver;
      ++group.turn;
    } else if (group.phase != Group::Phase::kOver) {
      break_up(group, Leaving::kPeerLost, milliseconds(0));
    }
  }
  wait_for_place(worker);
  tempt_fate(worker);
}

// The process ends, whatever brought that about.
void World::exit(Worker& worker) {
  worker.state = Worker::State::kGone;
  ++worker.turn;
  if (!nodes_.at(worker.node).up) return;
  Ending ending{Ending::Kind::kLost, "is gone"};
  if (worker.said_finished) ending = {Ending::Kind::kFinished, ""};
  if (worker.fails && !worker.said_finished) ending = {Ending::Kind::kFailed, ""};
  tell(worker, [this, &worker, ending] {
    worker.known_gone = true;
    apply(coordinator_.ended(worker.job, worker.number, ending, agenda_.now()));
  });
}

void World::kill(Worker& worker) {
  if (worker.state != Worker::State::kGone) exit(worker);
}

void World::freeze(Worker& worker, std::optional<milliseconds> duration) {
  worker.frozen = true;
  if (duration) plan(*duration, [this, &worker] { thaw(worker); });
}

void World::thaw(Worker& worker) {
  if (!worker.frozen) return;
  worker.frozen = false;
  for (const auto& happening : std::exchange(worker.postponed, {})) happening();
  Group* group = worker.group;
  if (worker.state != Worker::State::kInGroup || group->phase == Group::Phase::kOver) return;
  // The others go on waiting for it no longer.
  for (Worker* member : group->members) ++member->turn;
  plan_for(*group, dice_.time(0, 20),
           group->phase == Group::Phase::kMeeting    ? &World::meet
           : group->phase == Group::Phase::kTraining ? &World::begin_step
                                                     : &World::begin_finish);
}

// Many die when they are about to do something.
void World::tempt_fate(Worker& worker) {
  if (agenda_.now() >= peace_ || !dice_.percent(fate_percent_)) return;
  plan(dice_.time(0, 60), [this, &worker] {
    if (dice_.percent(80)) return kill(worker);
    if (worker.state != Worker::State::kGone) freeze(worker, dice_.time(10, 9000));
  });
}

}  // namespace tandem::simulation
