// The part of Team that shares lanes among workers of different speed.
#include <fmt/format.h>

#include <utility>

#include "cluster/lane_shares.h"
#include "cluster/team.h"
#include "collective/tree.h"

namespace tandem::cluster {
namespace {

// A step must become so much shorter, by so many measurements in a row, for the members to meet
// anew.
constexpr double kWorthIt = 0.75;
constexpr int kMeasurements = 4;

}  // namespace

// A lane takes the worker so long now.
void Team::balance(int worker, double lane_seconds_now) {
  // Smoothed: one look at a busy machine says little.
  double& kept = workers_.at(worker).lane_seconds;
  kept = kept > 0 ? 0.5 * (kept + lane_seconds_now) : lane_seconds_now;
  const bool settled = confirmed_ && !broken_ && goal_ == Goal::kTrain && !somebody_finished_;
  if (!settled || members_.empty() || worker != members_[0]) return;
  // Somebody comes or goes, and then all meet anyway.
  if (next_members() != members_ || seats_ != servers_placed_) return;
  const std::vector<std::int64_t> better = shares_worth_it();
  if (better == lane_ends_) {
    uneven_ = 0;
    return;
  }
  if (++uneven_ < kMeasurements) return;
  std::string shares;
  std::int64_t begin = 0;
  for (const std::int64_t end :
       better.empty() ? collective::equal_shares(config_.lanes, std::ssize(members_)) : better) {
    shares += fmt::format(" {}", end - begin);
    begin = end;
  }
  tell("rebalanced", "master", "lanes by worker:" + shares);
  place(std::vector<int>(members_));
}

// Nothing when the speed of a member is not known.
std::optional<std::vector<double>> Team::lane_seconds() const {
  std::vector<double> seconds;
  for (const int member : members_) {
    seconds.push_back(workers_.at(member).lane_seconds);
    if (seconds.back() <= 0) return std::nullopt;
  }
  return seconds;
}

// How the members shall share the lanes: as they do, unless another way is much better.
std::vector<std::int64_t> Team::shares_worth_it() const {
  const auto seconds = lane_seconds();
  if (config_.lanes == 0 || members_.size() < 2 || !seconds) return {};
  const std::vector<std::int64_t> equal =
      collective::equal_shares(config_.lanes, std::ssize(members_));
  const bool fits = lane_ends_.size() == members_.size();
  const std::vector<std::int64_t>& now = fits ? lane_ends_ : equal;
  const std::vector<std::int64_t> best = fair_shares(config_.lanes, *seconds);
  if (step_seconds(best, *seconds) > kWorthIt * step_seconds(now, *seconds))
    return fits ? lane_ends_ : std::vector<std::int64_t>();
  return best == equal ? std::vector<std::int64_t>() : best;
}

}  // namespace tandem::cluster
