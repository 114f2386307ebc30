#include "collective/two_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "collective/message_reducer.h"
#include "collective/tree.h"

namespace tandem::collective {
namespace {

// Who waits for another host gives it time to say that one of its own ranks is late.
constexpr std::chrono::milliseconds kNews{1000};
// How long such news takes.
constexpr std::chrono::milliseconds kHearsay{300};

// A leader's view; at other ranks `upper` is null and they wait for the leader.
class TwoLevelReducer final : public Reducer {
 public:
  TwoLevelReducer(Engine& all, int first_rank, ShmControl& control, std::size_t buckets,
                  std::unique_ptr<ShmReducer> local, std::unique_ptr<Reducer> upper,
                  std::span<const float> sum)
      : all_(all),
        first_rank_(first_rank),
        control_(control),
        buckets_(buckets),
        local_(std::move(local)),
        upper_(std::move(upper)),
        sum_(sum),
        published_(control_.slot(0).published.value.load()) {}

  std::size_t partials() const override { return local_->partials(); }
  std::span<float> partial(std::size_t index) override { return local_->partial(index); }

  Status ready(std::size_t count) override {
    if (Status status = local_->ready(count); !status.ok())
      return spread(std::move(status).error());
    return upper_ == nullptr ? Status() : pass_on(local_->complete());
  }

  Status release(Deadline) override { return {}; }

  Result<std::span<const float>> sum(Deadline deadline) override {
    auto host_sum = local_->finish(deadline);
    if (!host_sum.ok()) return spread(std::move(host_sum).error());
    ++published_;
    if (upper_ == nullptr) {
      Status published = control_.await(0, control_.slot(0).published, published_,
                                        deadline + 2 * kNews, "the sum between hosts");
      if (!published.ok()) return cause_of(std::move(published).error());
      return sum_;
    }
    TANDEM_TRY(pass_on(buckets_));
    passed_ = 0;
    auto between = upper_->finish(deadline + kNews);
    if (!between.ok()) return tell(std::move(between).error());
    control_.advance(control_.slot(0).published);
    return sum_;
  }

 private:
  // Buckets that the host has summed go to the other hosts.
  Status pass_on(std::size_t complete) {
    const std::size_t more = complete - passed_;
    if (more == 0) return {};
    passed_ = complete;
    Status status = upper_->ready(more);
    if (!status.ok()) return tell(std::move(status).error());
    return {};
  }

  // A rank of this host is gone or late, which the other hosts only see by what does not come.
  Error spread(Error error) {
    if (const auto culprit = control_.culprit()) all_.give_up(error.code(), first_rank_ + *culprit);
    return error;
  }

  // What is missed between hosts may be missing because of a third rank: then all ranks hear of it.
  Error cause_of(Error error) {
    const Deadline until = deadline_after(kHearsay);
    while (std::chrono::steady_clock::now() < until) {
      if (Status known = all_.exchange({}, {}, until); !known.ok()) return std::move(known).error();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return error;
  }

  // The others of this host wait for us, and must hear why in vain.
  Error tell(Error seen) {
    Error error = cause_of(std::move(seen));
    [[maybe_unused]] const Error written =
        control_.fail(error.code() == Code::kTimeout ? Fault::kToldLate : Fault::kToldLost, 0,
                      fmt::format("reports: {}", error.message()));
    return error;
  }

  Engine& all_;
  const int first_rank_;  // Of this host.
  ShmControl& control_;
  const std::size_t buckets_;
  const std::unique_ptr<ShmReducer> local_;
  const std::unique_ptr<Reducer> upper_;
  const std::span<const float> sum_;
  std::uint32_t published_;  // Steps, ours included.
  std::size_t passed_ = 0;   // Buckets of this step that the upper level has.
};

class TwoLevelEngine final : public Engine {
 public:
  explicit TwoLevelEngine(TwoLevelParts parts) : parts_(std::move(parts)) {}

  std::string_view name() const override { return parts_.all->name(); }
  const Membership& membership() const override { return parts_.all->membership(); }
  Traffic traffic() const override {
    Traffic sum = parts_.all->traffic();
    if (parts_.leaders != nullptr) {
      sum.sent += parts_.leaders->traffic().sent;
      sum.received += parts_.leaders->traffic().received;
    }
    return sum;
  }
  Status exchange(std::span<const Send> sends, std::span<const Receive> receives,
                  Deadline deadline) override {
    return parts_.all->exchange(sends, receives, deadline);
  }
  Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline deadline) override {
    return parts_.all->allocate(bytes, deadline);
  }
  std::optional<Status> all_reduce(const Operand& operand, Op op, Order order,
                                   Deadline deadline) override {
    return parts_.all->all_reduce(operand, op, order, deadline);
  }
  bool checks_calls() const override { return parts_.all->checks_calls(); }
  void give_up(Code why, int culprit) override { parts_.all->give_up(why, culprit); }
  Result<std::unique_ptr<Reducer>> make_reducer(ReducePlan plan, Deadline deadline) override;

 private:
  int hosts() const { return static_cast<int>(parts_.first_ranks.size()); }
  int end_rank(int host) const {
    return host + 1 < hosts() ? parts_.first_ranks[static_cast<std::size_t>(host) + 1]
                              : membership().size();
  }
  int host_of(int rank) const {
    const auto next = std::upper_bound(parts_.first_ranks.begin(), parts_.first_ranks.end(), rank);
    return static_cast<int>(next - parts_.first_ranks.begin()) - 1;
  }
  LaneRange lanes_of(int host, const LaneEnds& ends) const {
    const int first = parts_.first_ranks[static_cast<std::size_t>(host)];
    return {hosted_lanes(ends, first).begin, hosted_lanes(ends, end_rank(host) - 1).end};
  }

  TwoLevelParts parts_;
};

Result<std::unique_ptr<Reducer>> TwoLevelEngine::make_reducer(ReducePlan plan, Deadline deadline) {
  const LaneEnds ends = ends_of(plan, membership().size());
  const int host = host_of(membership().rank);
  const int first = parts_.first_ranks[static_cast<std::size_t>(host)];
  TANDEM_ASSIGN(std::byte* const memory,
                parts_.local->map_common(plan.floats * sizeof(float), deadline));
  float* const sum = reinterpret_cast<float*>(memory);

  ShmReducerMemory inside;
  for (int rank = first; rank < end_rank(host); ++rank) {
    for (const LaneRange& node : maximal_nodes(plan.lanes, hosted_lanes(ends, rank)))
      inside.partials.push_back({node, rank - first});
  }
  for (const LaneRange& node : maximal_nodes(plan.lanes, lanes_of(host, ends)))
    inside.targets.push_back({node, nullptr});
  // The sums of the host are the partials of the level above.
  MessageReducerMemory between;
  TANDEM_ASSIGN(auto local, parts_.local->make_shared_reducer(plan, std::move(inside), deadline));
  for (std::size_t i = 0; i < local->targets(); ++i) between.own.push_back(local->target(i));
  between.sum = sum;
  std::unique_ptr<Reducer> upper;
  if (parts_.leaders != nullptr) {
    for (int other = 0; other < hosts(); ++other) {
      for (const LaneRange& node : maximal_nodes(plan.lanes, lanes_of(other, ends)))
        between.partials.push_back({node, other});
    }
    upper = make_message_reducer(*parts_.leaders, plan, std::move(between));
  }
  return std::unique_ptr<Reducer>(std::make_unique<TwoLevelReducer>(
      *parts_.all, first, parts_.local->control(), plan.buckets.size(), std::move(local),
      std::move(upper), std::span<const float>(sum, plan.floats)));
}

}  // namespace

std::unique_ptr<Engine> make_two_level_engine(TwoLevelParts parts) {
  return std::make_unique<TwoLevelEngine>(std::move(parts));
}

}  // namespace tandem::collective
