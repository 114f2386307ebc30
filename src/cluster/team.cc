#include "cluster/team.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/words.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;

std::string name_of(int worker) {
  return worker_name(static_cast<std::size_t>(worker));
}

}  // namespace

void Team::set_node(int worker, std::int64_t node) {
  if (const auto found = workers_.find(worker); found != workers_.end()) found->second.node = node;
}

TeamActions Team::begin(TimePoint now) {
  decide(now);
  return take();
}

TeamActions Team::ready(int worker, TimePoint now) {
  if (const auto found = workers_.find(worker);
      found != workers_.end() && found->second.stage == Stage::kStarting)
    found->second.stage = Stage::kReady;
  decide(now);
  return take();
}

TeamActions Team::placed(int worker, std::uint64_t generation, TimePoint now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || generation != generation_ || !is_member(worker)) return take();
  const bool is_new = !found->second.has_state;
  found->second.has_state = true;
  if (is_new && generation_ > 1)
    tell("joined", name_of(worker), fmt::format("generation {}", generation));
  if (!confirmed_) {
    confirmed_ = true;
    stillborn_ = 0;
    backoff_ = milliseconds(0);
    if (lost_at_) {
      tell("recovered", name_of(worker),
           fmt::format("training goes on with {} of {} workers, generation {}", members_.size(),
                       wanted_, generation),
           std::chrono::duration_cast<milliseconds>(now - *lost_at_));
      lost_at_.reset();
    }
  }
  decide(now);
  return take();
}

TeamActions Team::left(int worker, std::uint64_t generation, Leaving why, TimePoint now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.stage != Stage::kPlaced) return take();
  // Of an earlier generation: it has its next place already and goes there, unless it shall end.
  if (generation != generation_ && !found->second.unwanted) return take();
  found->second.stage = Stage::kLeft;
  if (generation != generation_) {
    decide(now);
    return take();
  }
  if (why != Leaving::kAgreed && !lost_at_) lost_at_ = now;
  if (why == Leaving::kPeerLost && !broken_) echo_until_ = now + config_.echo;
  if (why == Leaving::kTimeout && !settle_until_) settle_until_ = now + config_.settle;
  broken_ = true;
  decide(now);
  return take();
}

TeamActions Team::finished(int worker, TimePoint now) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    found->second.stage = Stage::kFinished;
    somebody_finished_ = true;
  }
  decide(now);
  return take();
}

TeamActions Team::ended(int worker, const Ending& ending, TimePoint now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return take();
  const Stage stage = found->second.stage;
  if (!found->second.has_state) ++stillborn_;
  workers_.erase(found);
  if (goal_ == Goal::kCancel && stage == Stage::kPlaced && is_member(worker) &&
      ending.kind == Ending::Kind::kLost)
    broken_ = true;
  if (goal_ == Goal::kTrain && stage != Stage::kFinished && stage != Stage::kEnding) {
    if (ending.kind == Ending::Kind::kFailed) {
      goal_ = Goal::kFail;
      guilty_ = worker;
    } else if (ending.kind == Ending::Kind::kLost) {
      lose(worker, ending.how, now);
    }
  }
  decide(now);
  return take();
}

void Team::lose(int worker, const std::string& how, TimePoint now) {
  tell("lost", name_of(worker), how);
  if (is_member(worker)) {
    broken_ = true;
    echo_until_.reset();
    if (!lost_at_) lost_at_ = now;
  }
  // Those that come and die before they made a step will not live the next time either.
  constexpr int kMostStillborn = 2;
  const bool hopeless = stillborn_ > kMostStillborn * std::max(1, wanted_);
  if (++lost_ > config_.restarts || hopeless) {
    goal_ = Goal::kFail;
    guilty_ = worker;
    reason_ = hopeless ? fmt::format("{} workers in a row died before they made a step", stillborn_)
                       : fmt::format(
                             "{} lost workers had been replaced before, as many as "
                             "cluster.max_restarts allows",
                             config_.restarts);
    return;
  }
  start_after_ = now + backoff_;
  backoff_ =
      backoff_.count() == 0 ? config_.first_backoff : std::min(backoff_ * 2, config_.most_backoff);
}

TeamActions Team::resize(int wanted, TimePoint now) {
  if (wanted != wanted_ && generation_ > 0)
    tell("resized", "master", fmt::format("from {} to {} workers", wanted_, wanted));
  wanted_ = wanted;
  decide(now);
  return take();
}

TeamActions Team::cancel(TimePoint now) {
  if (goal_ == Goal::kCancel) order_ = Order::kKill;
  goal_ = Goal::kCancel;
  // Those that train end together after their step; asked once more, each is killed.
  for (const auto& [number, worker] : workers_) actions_.emplace_back(EndWorker{number, order_});
  decide(now);
  return take();
}

TeamActions Team::tick(TimePoint now) {
  decide(now);
  return take();
}

TimePoint Team::deadline() const {
  TimePoint first = TimePoint::max();
  for (const auto& time : {echo_until_, settle_until_, start_after_}) {
    if (time) first = std::min(first, *time);
  }
  return first;
}

std::optional<int> Team::speaker() const {
  if (members_.empty()) return std::nullopt;
  return members_[0];
}

bool Team::wants(int worker) const {
  const auto found = workers_.find(worker);
  return found != workers_.end() && found->second.stage != Stage::kEnding && goal_ == Goal::kTrain;
}

int Team::alive() const {
  return static_cast<int>(workers_.size());
}

TeamActions Team::take() {
  return std::exchange(actions_, {});
}

void Team::decide(TimePoint now) {
  if (over_) return;
  if (echo_until_ && now >= *echo_until_) echo_until_.reset();
  if (goal_ == Goal::kFail) end_all(now);
  if (settle_until_ && now >= *settle_until_) kill_the_late(now);
  if (goal_ == Goal::kTrain) {
    start_missing(now);
    release_superfluous();
  }
  // Also before the end: what the survivors of a broken generation have is saved by the next one.
  if (goal_ == Goal::kTrain || (goal_ == Goal::kCancel && broken_)) regroup(now);
  if (goal_ == Goal::kTrain && !somebody_finished_) return;
  if (!workers_.empty()) return;
  over_ = true;
  EndJob end;
  end.how = goal_ == Goal::kTrain    ? EndJob::How::kFinished
            : goal_ == Goal::kCancel ? EndJob::How::kCancelled
                                     : EndJob::How::kFailed;
  end.worker = guilty_;
  end.reason = reason_;
  actions_.emplace_back(std::move(end));
}

// The job has failed: nobody has anything left to save.
void Team::end_all(TimePoint) {
  for (auto& [number, worker] : workers_) {
    if (worker.stage == Stage::kEnding) continue;
    worker.stage = Stage::kEnding;
    actions_.emplace_back(EndWorker{number, Order::kKill});
  }
}

void Team::start_missing(TimePoint now) {
  if (somebody_finished_) {
    start_after_.reset();
    return;
  }
  if (start_after_ && now < *start_after_) return;
  start_after_.reset();
  for (int missing = wanted_ - wanted_alive(); missing > 0; --missing) {
    workers_[next_worker_] = {};
    actions_.emplace_back(StartWorker{next_worker_++});
  }
}

// Those that came last go first.
void Team::release_superfluous() {
  int superfluous = somebody_finished_ ? 0 : wanted_alive() - wanted_;
  for (auto worker = workers_.rbegin(); superfluous > 0 && worker != workers_.rend(); ++worker) {
    if (worker->second.unwanted || worker->second.stage == Stage::kEnding) continue;
    worker->second.unwanted = true;
    --superfluous;
  }
  for (auto& [number, worker] : workers_) {
    const bool late_comer = somebody_finished_ && worker.stage <= Stage::kReady;
    const bool goes = worker.unwanted && worker.stage != Stage::kPlaced;
    if ((!goes && !late_comer) || worker.stage >= Stage::kFinished) continue;
    actions_.emplace_back(
        EndWorker{number, worker.stage == Stage::kStarting ? Order::kKill : Order::kTerminate});
    worker.stage = Stage::kEnding;
  }
}

void Team::regroup(TimePoint now) {
  // Who finishes a moment before the others does not leave them alone.
  if (somebody_finished_ && !broken_) return;
  std::vector<int> next = next_members();
  if (!broken_ && next == members_) {
    waiting_ = waiting_ && members_.empty();
    if (!members_.empty() || next.empty()) return;
  }
  if (must_wait(next, now)) return;
  const int least = goal_ == Goal::kCancel ? 1 : std::max(1, config_.least);
  if (static_cast<int>(next.size()) < least) {
    if (!waiting_ && generation_ > 0)
      tell("waiting", "master",
           fmt::format("{} of at least {} workers are there", next.size(), config_.least));
    waiting_ = true;
    return;
  }
  place(std::move(next), now);
}

bool Team::must_wait(const std::vector<int>& next, TimePoint) {
  // Who is to blame will be known in a moment.
  if (echo_until_ || settle_until_) return true;
  // The first generation begins when all are there.
  if (generation_ == 0) return count(Stage::kStarting) > 0 || start_after_.has_value();
  // Nobody is missing, only others come or go: not while the members still meet.
  if (!broken_ && !members_.empty() && !confirmed_) return true;
  return next.empty();
}

// Some members waited for too long; those that are neither back nor dead are what they waited for.
void Team::kill_the_late(TimePoint now) {
  settle_until_.reset();
  for (const int member : members_) {
    const auto found = workers_.find(member);
    if (found == workers_.end() || found->second.stage != Stage::kPlaced) continue;
    tell("late", name_of(member), "the others waited for it until their time-out; it is killed");
    found->second.stage = Stage::kEnding;
    actions_.emplace_back(EndWorker{member, Order::kKill});
    if (goal_ == Goal::kTrain) lose(member, "was late and was killed", now);
  }
}

void Team::place(std::vector<int> next, TimePoint) {
  ++generation_;
  members_ = std::move(next);
  confirmed_ = broken_ = waiting_ = false;
  echo_until_.reset();
  settle_until_.reset();
  const bool anew = std::none_of(members_.begin(), members_.end(),
                                 [&](int member) { return workers_.at(member).has_state; });
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    workers_.at(members_[rank]).stage = Stage::kPlaced;
    actions_.emplace_back(PlaceWorker{members_[rank], generation_, static_cast<int>(rank),
                                      static_cast<int>(members_.size()), anew});
  }
}

std::vector<int> Team::next_members() const {
  std::vector<int> next;
  for (const auto& [number, worker] : workers_) {
    const bool able = worker.stage == Stage::kReady || worker.stage == Stage::kPlaced ||
                      worker.stage == Stage::kLeft;
    if (able && !worker.unwanted && (worker.has_state || goal_ == Goal::kTrain))
      next.push_back(number);
  }
  std::stable_sort(next.begin(), next.end(),
                   [&](int a, int b) { return workers_.at(a).node < workers_.at(b).node; });
  return next;
}

bool Team::is_member(int worker) const {
  return std::find(members_.begin(), members_.end(), worker) != members_.end();
}

int Team::count(Stage stage) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second.stage == stage;
  }));
}

// Those that shall stay.
int Team::wanted_alive() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const auto& each) {
    return !each.second.unwanted && each.second.stage != Stage::kEnding;
  }));
}

void Team::tell(std::string kind, std::string who, std::string detail,
                std::optional<milliseconds> recovered) {
  actions_.emplace_back(TellUser{std::move(kind), std::move(who), std::move(detail), recovered});
}

}  // namespace tandem::cluster
