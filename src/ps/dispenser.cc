#include "ps/dispenser.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::ps {

Counts::Counts(std::vector<std::uint64_t> counts) : counts_(std::move(counts)) {
  if (counts_.size() > kMost + 1) counts_.resize(kMost + 1);
}

void Counts::add(std::int64_t number) {
  const auto at = static_cast<std::size_t>(std::clamp<std::int64_t>(number, 0, kMost));
  if (counts_.size() <= at) counts_.resize(at + 1);
  ++counts_[at];
}

Dispenser::Dispenser(const Stretch& stretch, const std::vector<std::int64_t>& done,
                     TaskTally& tally)
    : stretch_(stretch),
      tally_(tally),
      first_(stretch.from * stretch.lanes),
      end_(stretch.to * stretch.lanes),
      next_(first_),
      below_(first_),
      open_(stretch.from) {
  TANDEM_CHECK(stretch.from >= 0 && stretch.from <= stretch.to && stretch.lanes > 0 &&
               end_ - first_ <= kMostTasks && stretch.staleness.value_or(0) >= 0);
  done_.resize(static_cast<std::size_t>(end_ - first_));
  std::fill_n(done_.begin(), std::clamp(stretch.done_below, first_, end_) - first_, true);
  for (const std::int64_t task : done) {
    if (task >= first_ && task < end_) done_[static_cast<std::size_t>(task - first_)] = true;
  }
  skip_done();
  // What was closed before is done at all servers.
  if (stretch.quorum > 0) {
    open_ = below_ / stretch.lanes;
    below_ = next_ = open_ * stretch.lanes;
    std::fill(done_.begin() + (below_ - first_), done_.end(), false);
    std::erase_if(tally_.dropped, [&](std::int64_t task) { return task >= below_; });
  }
}

bool Dispenser::is_done(std::int64_t task) const {
  return done_[static_cast<std::size_t>(task - first_)];
}

void Dispenser::skip_done() {
  while (below_ < end_ && is_done(below_)) ++below_;
  while (next_ < end_ && is_done(next_)) ++next_;
}

Status Dispenser::complete(int worker, std::int64_t task, double loss, std::int64_t samples) {
  Worker& known = workers_[worker];
  if (task < 0 || known.task != task) {
    return Error(Code::kInvalidArgument,
                 fmt::format("task {} was completed by worker {}, which had {}", task, worker,
                             known.task < 0 ? "none" : fmt::format("task {}", known.task)));
  }
  known.task = -1;
  known.fresh = known.next_fresh;
  if (stretch_.quorum > 0 && task / stretch_.lanes < open_) return {};  // Too late.
  // Nothing is applied before a step is closed.
  if (stretch_.quorum == 0) tally_.missed.add(completed_ - known.seen);
  ++completed_;
  tally_.loss += loss;
  tally_.samples += samples;
  tally_.staleness.add(known.behind);
  done_[static_cast<std::size_t>(task - first_)] = true;
  if (stretch_.quorum > 0) {
    came_.push_back(task % stretch_.lanes);
    if (std::ssize(came_) >= std::min(stretch_.quorum, stretch_.lanes)) close();
  } else {
    skip_done();
  }
  return {};
}

void Dispenser::close() {
  std::sort(came_.begin(), came_.end());
  for (std::int64_t task = open_ * stretch_.lanes; task < (open_ + 1) * stretch_.lanes; ++task) {
    if (!is_done(task)) tally_.dropped.push_back(task);
    done_[static_cast<std::size_t>(task - first_)] = true;
  }
  closed_ = ClosedStep{open_, std::exchange(came_, {})};
  ++open_;
  below_ = next_ = open_ * stretch_.lanes;
}

Status Dispenser::ask(int worker) {
  // Whoever asks for the first time has pulled what there was.
  Worker& known =
      workers_.try_emplace(worker, Worker{.fresh = first_, .told = stretch_.from}).first->second;
  if (known.asks || known.task >= 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("worker {} asked for a task while it has one", worker));
  }
  known.asks = true;
  waiting_.push_back(worker);
  return {};
}

void Dispenser::end_soon(std::uint16_t wish) {
  wish_ |= wish;
  if (wish == 0) return;
  const std::int64_t lanes = stretch_.lanes;
  end_ = std::min(end_, (std::max(next_, stretch_.begun) + lanes - 1) / lanes * lanes);
}

std::vector<Dispenser::Answer> Dispenser::take_answers() {
  std::vector<Answer> answers;
  std::size_t answered = 0;
  for (; answered < waiting_.size(); ++answered) {
    const bool over = next_ >= end_;
    if (over && below_ < end_) break;
    const std::int64_t ahead = next_ / stretch_.lanes - below_ / stretch_.lanes;
    if (!over && stretch_.staleness && ahead > *stretch_.staleness) break;
    if (!over && stretch_.quorum > 0 && next_ / stretch_.lanes > open_) break;
    const int worker = waiting_[answered];
    Worker& known = workers_.at(worker);
    known.asks = false;
    const bool news = closed_ && std::exchange(known.told, open_) < open_;
    if (news) known.fresh = below_;
    Answer answer = over ? Answer{.worker = worker} : hand_out(worker);
    if (news) answer.pull = answer.closes = true;
    answers.push_back(answer);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(answered));
  return answers;
}

Dispenser::Answer Dispenser::hand_out(int worker) {
  Worker& known = workers_.at(worker);
  Answer answer{.worker = worker, .task = next_};
  const auto behind = [&] {
    return std::max<std::int64_t>(0, next_ / stretch_.lanes - known.fresh / stretch_.lanes);
  };
  if (stretch_.staleness && behind() > *stretch_.staleness) {
    answer.pull = true;
    known.fresh = below_;
  }
  TANDEM_CHECK(!stretch_.staleness || behind() <= *stretch_.staleness);
  known.behind = behind();
  known.task = next_;
  known.next_fresh = below_;
  known.seen = completed_;
  ++next_;
  skip_done();
  return answer;
}

}  // namespace tandem::ps
