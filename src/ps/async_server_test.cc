// Workers that do not wait for each other, on real sockets and shared memory.
#include <gtest/gtest.h>

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

Plan async_plan(std::int64_t workers, std::uint64_t generation) {
  Plan plan;
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

// When a worker dies: in which task that it gets, after how many buckets.
struct Death {
  int worker = -1;
  int tasks = 0;
  std::size_t buckets = 0;
};

struct Outcome {
  int ended = 0;              // Workers that saw the end of the stretch.
  std::int64_t step = 0;      // Where it ended.
  std::vector<float> values;  // What the parameters were then.
};

// One generation of workers that push ones with a rate of 1, so that every task takes 1 from every
// parameter.
class Generation {
 public:
  Generation(const TestServers& servers, Sharing sharing, int workers, std::uint64_t number)
      : servers_(servers),
        sharing_(sharing),
        workers_(workers),
        plan_(async_plan(workers, number)) {}

  // From step `from` on, with a new state of zeros where that is wanted.
  Outcome run(std::int64_t from, std::int64_t to, bool loads, const Death& death = {},
              std::optional<std::int64_t> staleness = {}) {
    std::latch prepared(workers_), ended(workers_);
    std::mutex mutex;
    Outcome outcome;
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers_; ++worker) {
      threads.emplace_back([&, worker] {
        auto client = connect(worker);
        EXPECT_TRUE(client.ok());
        if (worker == 0 && client.ok()) prepare(**client, from, to, loads, staleness);
        prepared.arrive_and_wait();
        Result<TaskGiven> last = work(**client, worker, death);
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
    return Client::connect({.servers = servers_.endpoints(),
                            .token = servers_.token(),
                            .plan = plan_,
                            .worker = worker,
                            .name = "worker " + std::to_string(worker),
                            .sharing = sharing_},
                           deadline_after(seconds(20)));
  }

  static void prepare(Client& client, std::int64_t from, std::int64_t to, bool loads,
                      std::optional<std::int64_t> staleness) {
    std::vector<float> zeros(kParameters);
    EXPECT_TRUE(loads || client.all_have(from));
    const Status ready = loads ? client.load(from, {zeros}, deadline_after(seconds(20)))
                               : client.use(from, deadline_after(seconds(20)));
    EXPECT_TRUE(ready.ok()) << ready.error().message();
    EXPECT_TRUE(client.begin_stretch({from, to, staleness}, deadline_after(seconds(20))).ok());
  }

  Result<TaskGiven> work(Client& client, int worker, const Death& death) {
    TANDEM_TRY(client.pull(deadline_after(seconds(20))));
    TaskDone done;
    for (int tasks = 0;; ++tasks) {
      TANDEM_ASSIGN(TaskGiven given, client.next_task(done, deadline_after(seconds(20))));
      if (given.end) return given;
      if (given.pull) TANDEM_TRY(client.pull(deadline_after(seconds(20))));
      const std::span<float> gradient = client.partial(0);
      std::fill(gradient.begin(), gradient.end(), 1.0F);
      client.begin(given.task, 1);
      const bool dies = worker == death.worker && tasks == death.tasks;
      for (std::size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
        if (dies && bucket == death.buckets) return Error(Code::kCancelled, "dies");
        TANDEM_TRY(client.ready(1));
      }
      TANDEM_TRY(client.finish(deadline_after(seconds(20))));
      done = {.task = given.task, .loss = 0.5, .samples = 2};
    }
  }

  const TestServers& servers_;
  const Sharing sharing_;
  const int workers_;
  const Plan plan_;
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
  TestServers servers(2);
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

INSTANTIATE_TEST_SUITE_P(Transports, AsyncServers,
                         testing::Values(Sharing::kWhereItCan, Sharing::kNever),
                         [](const auto& each) {
                           return each.param == Sharing::kNever ? "Tcp" : "SharedMemory";
                         });

}  // namespace
}  // namespace tandem::ps
