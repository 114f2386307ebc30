// Eight workers and three servers push and pull at random for a minute, over connections that are
// held up and cut: every push that was acknowledged is applied exactly once, each worker's in
// order. In two rounds of three each slice is on two servers, and both have the same bits.
#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <set>

#include "ps/client.h"
#include "ps/rough_road_testing.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 8;
constexpr std::int64_t kLanes = 8;
constexpr std::size_t kParameters = 30'000;
constexpr std::chrono::seconds kDuration{60};
constexpr std::chrono::seconds kPatience{20};

// Powers of two, so that all sums of tasks are exact: a task takes 1 from every parameter but the
// first, and its own number from that one.
class Crowd {
 public:
  explicit Crowd(std::vector<net::Endpoint> servers) : servers_(std::move(servers)) {}

  // One generation, until it breaks or its stretch ends, which somebody wishes after `until`.
  // Whether it ended.
  bool run(std::int64_t from, bool loads, Clock::time_point until) {
    plan_.generation += 1;
    plan_.replicas = plan_.generation % 3 == 0 && Clock::now() < until ? 1 : 2;
    plan_.parameters = plan_.floats = kParameters;
    plan_.buckets = {{12'000, kParameters}, {0, 12'000}, {kParameters, kParameters}};
    plan_.trainable = {{0, static_cast<std::int64_t>(kParameters)}};
    plan_.lanes = kLanes;
    plan_.ends = collective::equal_shares(kLanes, kWorkers);
    plan_.async = AsyncRule{};
    std::latch prepared(kWorkers), left(kWorkers);
    std::atomic<int> ended = 0;
    std::atomic<bool> broken = false;
    {
      std::vector<std::jthread> threads;
      for (int worker = 0; worker < kWorkers; ++worker) {
        threads.emplace_back([&, worker] {
          auto client = connect(worker, deadline_after(kPatience));
          bool ready = client.ok();
          if (ready && worker == 0) ready = prepare(**client, from, loads);
          if (!ready) broken = true;
          prepared.arrive_and_wait();
          bool done = false;
          if (ready && !broken) done = work(**client, worker, until);
          if (!done) {
            broken = true;
            client = Error(Code::kCancelled, "");  // The others notice.
          }
          ended += done ? 1 : 0;
          left.arrive_and_wait();
        });
      }
    }
    return ended == kWorkers;
  }

  // Of all that the last generation left.
  Status compare_copies() {
    plan_.generation += 1;
    const Deadline deadline = deadline_after(kPatience);
    TANDEM_ASSIGN(auto client, connect(0, deadline));
    if (!client->all_have(step_)) return Error(Code::kNotFound, "a copy is behind");
    TANDEM_TRY(client->use(step_, deadline));
    return client->compare_copies(step_, deadline);
  }

  std::int64_t acknowledged() const { return std::ssize(acknowledged_); }
  std::int64_t last_step() const { return step_; }
  const std::vector<float>& values() const { return values_; }

 private:
  Result<std::unique_ptr<Client>> connect(int worker, Deadline deadline) const {
    return Client::connect({.servers = servers_,
                            .token = "token",
                            .plan = plan_,
                            .worker = worker,
                            .name = "worker " + std::to_string(worker),
                            .sharing = Sharing::kNever},
                           deadline);
  }

  bool prepare(Client& client, std::int64_t from, bool loads) {
    std::vector<float> zeros(kParameters);
    const Deadline deadline = deadline_after(kPatience);
    Status state = loads                   ? client.load(from, {zeros}, deadline)
                   : client.all_have(from) ? client.use(from, deadline)
                                           : client.restore(from, {zeros}, deadline);
    if (state.ok()) state = client.compare_copies(from, deadline);
    if (!state.ok()) {
      // A cut may come here, too; that the state is gone, or copies differ, may not.
      EXPECT_NE(state.error().code(), Code::kNotFound) << state.error().message();
      EXPECT_NE(state.error().code(), Code::kCorrupt) << state.error().message();
      return false;
    }
    return client.begin_stretch({.from = from, .to = 1 << 18}, deadline_after(kPatience)).ok();
  }

  bool work(Client& client, int worker, Clock::time_point until) {
    if (!client.pull(deadline_after(kPatience)).ok()) return false;
    TaskDone done;
    std::int64_t before = -1;
    for (;;) {
      done.wish = Clock::now() > until ? 1 : 0;
      const auto given = client.next_task(done, deadline_after(kPatience));
      if (!given.ok()) return false;
      if (given->end) return end(client, *given->end);
      // A worker's tasks come in order.
      EXPECT_GT(given->task, before);
      before = given->task;
      if (worker % 3 == 0 && !client.pull(deadline_after(kPatience)).ok()) return false;
      const std::span<float> gradient = client.partial(0);
      std::fill(gradient.begin(), gradient.end(), 1.0F);
      gradient[0] = static_cast<float>(given->task % 16);
      client.begin(given->task, 1);
      for (std::size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
        if (!client.ready(1).ok()) return false;
      }
      if (!client.finish(deadline_after(kPatience)).ok()) return false;
      done = {.task = given->task, .samples = 1};
      const std::lock_guard lock(mutex_);
      acknowledged_.insert(given->task);
    }
  }

  bool end(Client& client, const wire::PsStretchEnd& told) {
    if (!client.pull(deadline_after(kPatience)).ok()) return false;
    const std::lock_guard lock(mutex_);
    step_ = told.end();
    values_.clear();
    while (values_.size() < kParameters) {
      const std::span<const float> some = client.result({values_.size(), kParameters});
      values_.insert(values_.end(), some.begin(), some.end());
    }
    return true;
  }

  const std::vector<net::Endpoint> servers_;
  Plan plan_;
  std::mutex mutex_;
  std::set<std::int64_t> acknowledged_;
  std::int64_t step_ = 0;
  std::vector<float> values_;
};

TEST(RoughRoad, EveryAcknowledgedPushIsAppliedExactlyOnce) {
  TestServers servers(3);
  std::vector<std::unique_ptr<RoughRoad>> roads;
  std::vector<net::Endpoint> endpoints;
  for (const net::Endpoint& server : servers.endpoints()) {
    roads.push_back(std::make_unique<RoughRoad>(server.port, roads.size() + 1));
    endpoints.push_back(roads.back()->endpoint());
  }
  Crowd crowd(endpoints);
  const Clock::time_point until = Clock::now() + kDuration;
  bool loads = true, ended = false;
  int generations = 0;
  while (!ended && Clock::now() < until + kPatience) {
    if (Clock::now() > until) {
      for (const auto& road : roads) road->smooth();
    }
    ended = crowd.run(0, loads, until);
    if (crowd.acknowledged() > 0) loads = false;
    ++generations;
  }
  ASSERT_TRUE(ended);
  const Status compared = crowd.compare_copies();
  EXPECT_TRUE(compared.ok()) << compared.error().message();
  std::uint64_t cuts = 0;
  for (const auto& road : roads) cuts += road->cuts();
  EXPECT_GT(cuts, 3U) << "the road was smooth";
  EXPECT_GT(generations, 3);
  // All tasks before the end were done, each once, whoever was cut off on the way.
  const std::int64_t tasks = crowd.last_step() * kLanes;
  EXPECT_GT(tasks, 100);
  std::int64_t numbers = 0;
  for (std::int64_t task = 0; task < tasks; ++task) numbers += task % 16;
  ASSERT_LT(numbers, 1 << 24) << "beyond this a float cannot count";
  EXPECT_EQ(crowd.values()[0], -static_cast<float>(numbers));
  for (const std::size_t at :
       {std::size_t{1}, std::size_t{11'999}, std::size_t{12'000}, kParameters / 2, kParameters - 1})
    ASSERT_EQ(crowd.values()[at], -static_cast<float>(tasks));
  EXPECT_LE(crowd.acknowledged(), tasks);
  RecordProperty("tasks", static_cast<int>(tasks));
  RecordProperty("cuts", static_cast<int>(cuts));
}

}  // namespace
}  // namespace tandem::ps
