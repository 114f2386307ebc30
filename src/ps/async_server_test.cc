// Workers that do not wait for each other, on real sockets and shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>

#include "ps/client.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

constexpr std::size_t kParameters = 50'000;
constexpr std::int64_t kLanes = 3;

Plan async_plan(std::int64_t workers, std::uint64_t generation, std::size_t replicas) {
  Plan plan;
  plan.replicas = replicas;
  plan.generation = generation;
  plan.parameters = plan.floats = kParameters;
  plan.buckets = {{30'000, kParameters}, {0, 30'000}, {kParameters, kParameters}};
  plan.trainable = {{0, static_cast<std::int64_t>(kParameters)}};
  plan.lanes = kLanes;
  plan.ends = collective::equal_shares(kLanes, std::min(kLanes, workers));
  plan.async = AsyncRule{};
  return plan;
}

std::vector<float> all_results(const Client& client) {
  std::vector<float> all;
  while (all.size() < kParameters) {
    const std::span<const float> some = client.result({all.size(), kParameters});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

struct Outcome {
  int ended = 0;              // Workers that saw the end of the stretch.
  std::int64_t step = 0;      // Where it ended.
  std::vector<float> values;  // What the parameters were then.
};

// One generation of workers that push ones with a rate of 1, so that every task takes 1 from every
// parameter.
class Generation {
 public:
  Generation(const TestServers& servers, Sharing sharing, int workers, std::uint64_t number,
             std::size_t replicas = 1)
      : servers_(servers.endpoints()),
        token_(servers.token()),
        sharing_(sharing),
        workers_(workers),
        plan_(async_plan(workers, number, replicas)) {}

  void use_only(std::size_t servers) { servers_.resize(servers); }
  // By the last one.
  void replace_server(std::size_t seat) {
    servers_[seat] = servers_.back();
    servers_.pop_back();
  }
  void set_rule(const AsyncRule& rule, double momentum) {
    plan_.async = rule;
    plan_.optimizer.momentum = momentum;
  }
  void set_quorum(std::int64_t lanes) { quorum_ = lanes; }

  // From step `from` on, with a new state of zeros where that is wanted.
  Outcome run(std::int64_t from, std::int64_t to, bool loads, const Death& death = {},
              std::optional<std::int64_t> staleness = {}) {
    std::latch prepared(workers_), ended(workers_);
    std::mutex mutex;
    Outcome outcome;
    has_died_ = death.worker < 0;
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers_; ++worker) {
      threads.emplace_back([&, worker] {
        auto client = connect(worker);
        EXPECT_TRUE(client.ok());
        if (worker == 0 && client.ok()) prepare(**client, from, to, loads, staleness);
        prepared.arrive_and_wait();
        Result<TaskGiven> last = work(**client, worker, death);
        if (worker == death.worker) has_died_ = true;
        std::vector<float> values;
        if (last.ok() && last->end && (*client)->pull(deadline_after(seconds(20))).ok())
          values = all_results(**client);
        // As a training's workers do: nobody leaves before all have what they need.
        if (last.ok())
          ended.arrive_and_wait();
        else
          ended.count_down();
        const std::lock_guard lock(mutex);
        if (!last.ok() || !last->end) return;
        ++outcome.ended;
        outcome.step = last->end->end();
        outcome.values = std::move(values);
      });
    }
    threads.clear();
    return outcome;
  }

 private:
  Result<std::unique_ptr<Client>> connect(int worker) {
    return Client::connect({.servers = servers_,
                            .token = token_,
                            .plan = plan_,
                            .worker = worker,
                            .name = "worker " + std::to_string(worker),
                            .sharing = sharing_},
                           deadline_after(seconds(20)));
  }

  void prepare(Client& client, std::int64_t from, std::int64_t to, bool loads,
               std::optional<std::int64_t> staleness) const {
    std::vector<float> zeros(kParameters), momentum(kParameters);
    Arrays arrays{zeros};
    if (plan_.optimizer.momentum > 0) arrays.emplace_back(momentum);
    const Deadline deadline = deadline_after(seconds(20));
    EXPECT_TRUE(loads || client.can_fetch(from));
    const Status ready = loads                   ? client.load(from, arrays, deadline)
                         : client.all_have(from) ? client.use(from, deadline)
                                                 : client.restore(from, arrays, deadline);
    EXPECT_TRUE(ready.ok()) << ready.error().message();
    const Status equal = client.compare_copies(from, deadline);
    EXPECT_TRUE(equal.ok()) << equal.error().message();
    EXPECT_TRUE(client.begin_stretch({from, to, staleness, quorum_}, deadline).ok());
  }

  Result<TaskGiven> work(Client& client, int worker, const Death& death) {
    TANDEM_TRY(client.pull(deadline_after(seconds(20))));
    TaskDone done;
    for (int tasks = 0;; ++tasks) {
      TANDEM_ASSIGN(TaskGiven given, client.next_task(done, deadline_after(seconds(20))));
      if (given.end) return given;
      if (given.pull) TANDEM_TRY(client.pull(deadline_after(seconds(20))));
      // Or they had done it all, perhaps, before the one that is to die got so far.
      const Deadline patience = deadline_after(seconds(20));
      while (worker != death.worker && tasks > 0 && !has_died_ &&
             std::chrono::steady_clock::now() < patience)
        std::this_thread::yield();
      const std::span<float> gradient = client.partial(0);
      std::fill(gradient.begin(), gradient.end(), 1.0F);
      client.begin(given.task, 1, 2);
      const bool dies = worker == death.worker && tasks == death.tasks;
      for (std::size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
        if (dies && bucket == death.buckets) return Error(Code::kCancelled, "dies");
        TANDEM_TRY(client.ready(1));
      }
      TANDEM_TRY(client.finish(deadline_after(seconds(20))));
      done = {.task = given.task, .loss = 0.5, .samples = 2};
    }
  }

  std::vector<net::Endpoint> servers_;
  const std::string token_;
  const Sharing sharing_;
  const int workers_;
  Plan plan_;
  std::int64_t quorum_ = 0;
  std::atomic<bool> has_died_ = false;
};

class AsyncServers : public testing::TestWithParam<Sharing> {};

TEST_P(AsyncServers, ApplyEveryTaskOnce) {
  for (const std::size_t count : {1, 3}) {
    TestServers servers(count);
    Generation generation(servers, GetParam(), 3, 1);
    const Outcome outcome = generation.run(0, 40, /*loads=*/true);
    EXPECT_EQ(outcome.ended, 3);
    EXPECT_EQ(outcome.step, 40);
    EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -40.0F * kLanes));
  }
}

TEST_P(AsyncServers, HoldABoundOfStaleness) {
  TestServers servers(2, "token", nullptr, kLeastCredit);
  Generation generation(servers, GetParam(), 3, 1);
  const Outcome outcome = generation.run(0, 40, /*loads=*/true, {}, 1);
  EXPECT_EQ(outcome.ended, 3);
  EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -40.0F * kLanes));
}

TEST_P(AsyncServers, GoOnWithWhatALostWorkerHadPushedOfATask) {
  for (const std::size_t buckets : {0, 1, 2}) {
    TestServers servers(3);
    Outcome outcome =
        Generation(servers, GetParam(), 3, 1).run(5, 30, /*loads=*/true, {1, 4, buckets});
    EXPECT_EQ(outcome.ended, 0);
    outcome = Generation(servers, GetParam(), 2, 2).run(5, 30, /*loads=*/false, {0, 3, buckets});
    EXPECT_EQ(outcome.ended, 0);
    outcome = Generation(servers, GetParam(), 3, 3).run(5, 30, /*loads=*/false);
    EXPECT_EQ(outcome.ended, 3);
    EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -25.0F * kLanes));
    // And then with the next stretch, of other workers.
    outcome = Generation(servers, GetParam(), 1, 4).run(30, 32, /*loads=*/false);
    EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -27.0F * kLanes));
  }
}

TEST_P(AsyncServers, GoBackToAStateThatIsLoaded) {
  TestServers servers(2);
  Outcome outcome = Generation(servers, GetParam(), 3, 1).run(0, 30, /*loads=*/true, {1, 4, 1});
  EXPECT_EQ(outcome.ended, 0);
  outcome = Generation(servers, GetParam(), 3, 2).run(2, 30, /*loads=*/true);
  EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -28.0F * kLanes));
}

// With momentum and what depends on how old a gradient is, the order of pushes decides the bits.
TEST_P(AsyncServers, CopiesHaveTheSameBitsWhateverTheOrderOfPushes) {
  TestServers servers(3, "token", nullptr, kLeastCredit);
  for (std::uint64_t stretch = 0; stretch < 3; ++stretch) {
    Generation generation(servers, GetParam(), 3, stretch + 1, 2 + stretch % 2);
    generation.set_rule({.stale_lr = StaleRate::kLowered, .compensation = 0.01}, 0.5);
    const auto from = static_cast<std::int64_t>(10 * stretch);
    const Outcome outcome = generation.run(from, from + 10, /*loads=*/stretch == 0, {},
                                           stretch == 1 ? std::optional(1) : std::nullopt);
    EXPECT_EQ(outcome.ended, 3);
  }
  // Compares all copies when it begins.
  Generation last(servers, GetParam(), 1, 4, 3);
  last.set_rule({}, 0.5);
  EXPECT_EQ(last.run(30, 30, /*loads=*/false).ended, 1);
}

TEST_P(AsyncServers, GoOnWhereTheyWereWhenOneOfTwoCopiesIsLost) {
  for (const std::size_t lost : {0, 1, 2}) {
    TestServers servers(3);
    Outcome outcome =
        Generation(servers, GetParam(), 3, 1, 2).run(5, 30, /*loads=*/true, {1, 4, lost});
    EXPECT_EQ(outcome.ended, 0);
    servers.stop(lost);
    servers.start();
    Generation next(servers, GetParam(), 3, 2, 2);
    next.replace_server(lost);
    outcome = next.run(5, 30, /*loads=*/false);
    EXPECT_EQ(outcome.ended, 3);
    EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -25.0F * kLanes));
  }
}

TEST_P(AsyncServers, ServersJoinBetweenStretches) {
  TestServers servers(3);
  for (std::uint64_t stretch = 0; stretch < 3; ++stretch) {
    // What the two had when they were alone is of no use any more.
    Generation generation(servers, GetParam(), 2, 2 * stretch + 1, 2);
    if (stretch != 1) generation.use_only(2);
    const auto from = static_cast<std::int64_t>(10 * stretch);
    Outcome outcome = generation.run(from, from + 10, /*loads=*/stretch == 0, {1, 3, 2});
    EXPECT_EQ(outcome.ended, 0);
    Generation next(servers, GetParam(), 2, 2 * stretch + 2, 2);
    if (stretch != 1) next.use_only(2);
    outcome = next.run(from, from + 10, /*loads=*/false);
    EXPECT_EQ(outcome.ended, 2);
    const auto tasks = static_cast<float>((from + 10) * kLanes);
    EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -tasks));
  }
}

TEST_P(AsyncServers, AQuorumIsAppliedAtAllCopies) {
  TestServers servers(3, "token", nullptr, kLeastCredit);
  Generation generation(servers, GetParam(), 3, 1, 2);
  generation.set_rule({.applying = Applying::kWhenClosed}, 0);
  generation.set_quorum(2);
  const Outcome outcome = generation.run(0, 20, /*loads=*/true);
  EXPECT_EQ(outcome.ended, 3);
  EXPECT_EQ(outcome.values, std::vector<float>(kParameters, -20.0F));
  Generation next(servers, GetParam(), 2, 2, 2);
  next.set_rule({.applying = Applying::kWhenClosed}, 0);
  next.set_quorum(2);
  EXPECT_EQ(next.run(20, 22, /*loads=*/false).values, std::vector<float>(kParameters, -22.0F));
}

INSTANTIATE_TEST_SUITE_P(Transports, AsyncServers,
                         testing::Values(Sharing::kWhereItCan, Sharing::kNever),
                         [](const auto& each) {
                           return each.param == Sharing::kNever ? "Tcp" : "SharedMemory";
                         });

}  // namespace
}  // namespace tandem::ps
