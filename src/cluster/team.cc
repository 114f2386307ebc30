#include "cluster/team.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  if (found == workers_.end()) return take();
  if (generation <= void_generation_) return take();
  // Whatever became of its generation meanwhile.
  found->second.has_state = true;
  if (!std::exchange(found->second.has_joined, true) && generation > 1)
    tell("joined", name_of(worker), fmt::format("generation {}", generation));
  if (generation != generation_ || !is_member(worker)) return take();
  if (!confirmed_) confirm(worker, now);
  decide(now);
  return take();
}

void Team::confirm(int worker, TimePoint now) {
  confirmed_ = true;
  servers_proven_ = servers_placed_;
  fruitless_ = 0;
  stillborn_ = 0;
  backoff_ = milliseconds(0);
  // A step needs all members: what one has made, all have, or had it in their hands.
  for (const int member : members_) {
    if (const auto found = workers_.find(member); found != workers_.end())
      found->second.has_state = true;
  }
  if (!lost_at_) return;
  tell("recovered", name_of(worker),
       fmt::format("training goes on with {} of {} workers, generation {}", members_.size(),
                   wanted_, generation_),
       std::chrono::duration_cast<milliseconds>(now - *lost_at_));
  lost_at_.reset();
}

TeamActions Team::left(int worker, std::uint64_t generation, Leaving why, TimePoint now) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.stage != Stage::kPlaced) return take();
  // Of an earlier generation: it has its next place already and goes there.
  if (generation != found->second.place) return take();
  found->second.stage = Stage::kLeft;
  if (generation == generation_) {
    if (why != Leaving::kAgreed && !lost_at_) lost_at_ = now;
    if (why == Leaving::kPeerLost && !broken_) echo_until_ = now + config_.echo;
    if (why == Leaving::kTimeout && !settle_until_) settle_until_ = now + config_.settle;
    if (why == Leaving::kNoState) forget_state();
    broken_ = true;
  }
  decide(now);
  return take();
}

TeamActions Team::finished(int worker, TimePoint now) {
  if (const auto found = workers_.find(worker); found != workers_.end()) {
    found->second.stage = Stage::kFinished;
    if (!std::exchange(somebody_finished_, true)) settle_until_ = now + config_.settle;
  }
  decide(now);
  return take();
}

TeamActions Team::ended(int worker, const Ending& ending, TimePoint now) {
  bury(worker, ending, now);
  decide(now);
  return take();
}

TeamActions Team::ended(const std::vector<int>& workers, const Ending& ending, int wanted,
                        TimePoint now) {
  want(wanted);
  for (const int worker : workers) bury(worker, ending, now);
  decide(now);
  return take();
}

void Team::bury(int number, const Ending& ending, TimePoint now) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return;
  const Worker worker = found->second;
  workers_.erase(found);
  if (worker.stage == Stage::kPlaced && is_member(number)) broken_ = true;
  if (goal_ != Goal::kTrain || worker.stage >= Stage::kFinished) return;
  // A newcomer that cannot take part, perhaps because of its machine, does not end what others do.
  const bool is_newcomer = !worker.has_state && somebody_has_state();
  if (ending.kind == Ending::Kind::kFailed && !is_newcomer) return fail(number, "");
  if (ending.kind != Ending::Kind::kFinished && !somebody_finished_)
    lose(number, worker, ending.how, now);
}

bool Team::somebody_has_state() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& each) {
    return each.second.has_state && each.second.stage != Stage::kEnding;
  });
}

void Team::lose(int number, const Worker& lost, const std::string& how, TimePoint now) {
  tell("lost", name_of(number), how);
  fruitless_ = 0;
  if (is_member(number)) {
    broken_ = true;
    echo_until_.reset();
    if (!lost_at_) lost_at_ = now;
  }
  if (!lost.has_state) ++stillborn_;
  // Those that come and die before they made a step will not live the next time either.
  constexpr int kMostStillborn = 2;
  if (stillborn_ > kMostStillborn * std::max(1, wanted_)) {
    const std::string reason =
        fmt::format("{} workers in a row died before they made a step", stillborn_);
    if (!somebody_has_state()) return fail(number, reason);
    if (!std::exchange(stays_short_, true))
      tell("short", "master", reason + "; the job goes on with those that it has");
    return;
  }
  take_back();
  if (wanted_alive() >= wanted_) return;
  count_replacement(number, "workers", now);
}

// One more is to be started for one that was lost, unless there were too many.
void Team::count_replacement(int lost, const char* what, TimePoint now) {
  if (++replaced_ > config_.restarts)
    return fail(lost, fmt::format("{} lost {} had been replaced before, as many as "
                                  "cluster.max_restarts allows",
                                  config_.restarts, what));
  start_after_ = now + backoff_;
  backoff_ =
      backoff_.count() == 0 ? config_.first_backoff : std::min(backoff_ * 2, config_.most_backoff);
}

void Team::fail(int guilty, std::string reason) {
  goal_ = Goal::kFail;
  guilty_ = guilty;
  reason_ = std::move(reason);
}

TeamActions Team::resize(int wanted, TimePoint now) {
  want(wanted);
  decide(now);
  return take();
}

void Team::want(int wanted) {
  if (wanted > wanted_) stays_short_ = false;  // There are new places to try.
  if (wanted != wanted_ && generation_ > 0 && goal_ == Goal::kTrain)
    tell("resized", "master", fmt::format("from {} to {} workers", wanted_, wanted));
  wanted_ = wanted;
}

TeamActions Team::cancel(TimePoint now) {
  if (goal_ == Goal::kFail) return take();
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
  if (over_) return first;
  for (const auto& time : {echo_until_, settle_until_}) {
    if (time) first = std::min(first, *time);
  }
  const bool starts = start_after_ && goal_ == Goal::kTrain && !somebody_finished_;
  return starts ? std::min(first, *start_after_) : first;
}

std::optional<int> Team::speaker() const {
  if (members_.empty() || broken_) return std::nullopt;
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
  if (settle_until_ && now >= *settle_until_) kill_the_late(now);
  if (goal_ == Goal::kFail) end_all();
  if (somebody_finished_) {
    release_the_rest();
  } else if (goal_ == Goal::kTrain) {
    take_back();
    start_missing(now);
    mark_superfluous();
    release_superfluous();
    release_servers();
    regroup();
  } else if (goal_ == Goal::kCancel && broken_) {
    // What the survivors of a broken generation have is saved by the next one.
    regroup();
  }
  if (goal_ == Goal::kTrain && !somebody_finished_) return;
  if (!workers_.empty()) return;
  over_ = true;
  for (const auto& [server, stage] : servers_) actions_.emplace_back(EndServer{server});
  EndJob end;
  end.how = goal_ == Goal::kTrain    ? EndJob::How::kFinished
            : goal_ == Goal::kCancel ? EndJob::How::kCancelled
                                     : EndJob::How::kFailed;
  end.worker = guilty_;
  end.reason = reason_;
  actions_.emplace_back(std::move(end));
}

// The job has failed: nobody has anything left to save.
void Team::end_all() {
  for (auto& [number, worker] : workers_) {
    if (worker.stage == Stage::kEnding) continue;
    worker.stage = Stage::kEnding;
    actions_.emplace_back(EndWorker{number, Order::kKill});
  }
}

void Team::start_missing(TimePoint now) {
  if (start_after_ && now < *start_after_) return;
  start_after_.reset();
  start_missing_servers();
  if (stays_short_ && somebody_has_state()) return;
  for (int missing = wanted_ - wanted_alive(); missing > 0; --missing) {
    workers_[next_worker_] = {};
    actions_.emplace_back(StartWorker{next_worker_++});
  }
}

// Members that were to go with the end of the generation stay, before others are started in their
// place. Not those without which training has gone on: what they have is old.
void Team::take_back() {
  int missing = wanted_ - wanted_alive();
  for (auto& [number, worker] : workers_) {
    if (missing <= 0) return;
    if (!worker.unwanted || !trains(worker)) continue;
    worker.unwanted = false;
    --missing;
  }
}

// First go those that are no members: when no member stays, nobody calls the others away, and they
// train on beside the next generation. Then members without a state; of each those that came last.
void Team::mark_superfluous() {
  int superfluous = wanted_alive() - wanted_;
  constexpr int kMostWorth = 2;
  for (int worth = 0; worth <= kMostWorth; ++worth) {
    for (auto worker = workers_.rbegin(); superfluous > 0 && worker != workers_.rend(); ++worker) {
      Worker& one = worker->second;
      const int its_worth = (trains(one) ? 1 : 0) + (one.has_state ? 1 : 0);
      if (one.unwanted || one.stage >= Stage::kFinished || its_worth != worth) continue;
      one.unwanted = true;
      --superfluous;
    }
  }
}

void Team::release_superfluous() {
  for (auto& [number, worker] : workers_) {
    const bool is_out = worker.stage < Stage::kFinished && worker.stage != Stage::kPlaced;
    if (!worker.unwanted || !is_out) continue;
    actions_.emplace_back(
        EndWorker{number, worker.stage == Stage::kStarting ? Order::kKill : Order::kTerminate});
    worker.stage = Stage::kEnding;
  }
}

// Whoever finished has saved all there is. The members of its group say the same in a moment;
// others would only do again what is done.
void Team::release_the_rest() {
  for (auto& [number, worker] : workers_) {
    const bool may_finish = worker.stage == Stage::kPlaced && settle_until_;
    if (may_finish || worker.stage >= Stage::kFinished) continue;
    actions_.emplace_back(EndWorker{number, Order::kKill});
    worker.stage = Stage::kEnding;
  }
}

void Team::regroup() {
  if (must_wait()) return;
  std::vector<int> next = next_members();
  const bool goes_on = !broken_ && !members_.empty();
  if (goes_on && next == members_ && seats_ == servers_placed_) return;
  // Nobody comes any more when the job shall end.
  const int least = goal_ == Goal::kCancel ? 1 : std::max(1, config_.least);
  if (static_cast<int>(next.size()) >= least) return place(std::move(next));
  if (goes_on || goal_ == Goal::kCancel) return;
  if (!waiting_ && generation_ > 0)
    tell("waiting", "master",
         fmt::format("{} of at least {} workers are there; {} steps with {} samples are done",
                     next.size(), config_.least, progress_.step, progress_.samples));
  waiting_ = true;
}

bool Team::must_wait() const {
  if (!has_all_servers()) return true;
  // Who is to blame will be known in a moment.
  if (echo_until_ || settle_until_) return true;
  // The first generation begins when all are there.
  if (generation_ == 0) return count(Stage::kStarting) > 0 || start_after_.has_value();
  // Nobody is missing, only others come or go: not while the members still meet.
  return !broken_ && !confirmed_;
}

// Some members waited for too long; those that are neither back nor dead are what they waited for.
void Team::kill_the_late(TimePoint now) {
  settle_until_.reset();
  if (somebody_finished_) return;
  for (const int member : members_) {
    const auto found = workers_.find(member);
    if (found == workers_.end() || found->second.stage != Stage::kPlaced) continue;
    tell("late", name_of(member), "the others waited for it until their time-out; it is killed");
    found->second.stage = Stage::kEnding;
    actions_.emplace_back(EndWorker{member, Order::kKill});
    if (goal_ == Goal::kTrain) lose(member, found->second, "was late and was killed", now);
  }
}

void Team::place(std::vector<int> next) {
  // They meet again and again and never come to a step, though nobody dies: a network that lets
  // them reach the master and not each other.
  constexpr int kMostFruitless = 30;
  if (broken_ && !confirmed_ && ++fruitless_ > kMostFruitless && goal_ == Goal::kTrain) {
    fail(members_[0],
         fmt::format("the workers met {} times without being able to make a step; their "
                     "logs say why",
                     fruitless_));
    return end_all();
  }
  ++generation_;
  members_ = std::move(next);
  confirmed_ = broken_ = waiting_ = false;
  echo_until_.reset();
  settle_until_.reset();
  lane_ends_ = shares_worth_it();
  uneven_ = 0;
  servers_placed_ = seats_;
  const bool anew = std::none_of(members_.begin(), members_.end(),
                                 [&](int member) { return workers_.at(member).has_state; });
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    Worker& worker = workers_.at(members_[rank]);
    worker.stage = Stage::kPlaced;
    worker.place = generation_;
    actions_.emplace_back(PlaceWorker{members_[rank], generation_, static_cast<int>(rank),
                                      static_cast<int>(members_.size()), lane_ends_, anew,
                                      servers_placed_, former_servers()});
  }
}

std::vector<int> Team::next_members() const {
  std::vector<std::pair<std::int64_t, int>> by_node;
  for (const auto& [number, worker] : workers_) {
    const bool able = worker.stage == Stage::kReady || worker.stage == Stage::kPlaced ||
                      worker.stage == Stage::kLeft;
    if (able && !worker.unwanted && (worker.has_state || goal_ == Goal::kTrain))
      by_node.emplace_back(worker.node, number);
  }
  std::sort(by_node.begin(), by_node.end());
  std::vector<int> next;
  for (const auto& [node, number] : by_node) next.push_back(number);
  return next;
}

// Whether it is a member that has not been told to end.
bool Team::trains(const Worker& worker) const {
  return worker.place == generation_ &&
         (worker.stage == Stage::kPlaced || worker.stage == Stage::kLeft);
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
