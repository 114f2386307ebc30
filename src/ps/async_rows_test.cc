// Rows of tables, in slices and by key, when workers do not wait for each other: on real sockets
// and shared memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <map>
#include <thread>

#include "ps/client.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

constexpr std::int64_t kLanes = 3;
constexpr std::uint32_t kRows = 90;
enum class Kept : std::uint8_t { kInSlices, kByKey };

struct Way {
  Kept kept;
  Sharing sharing;
};

// Two tables and 2,000 parameters behind them.
Plan plan_of(Kept kept, int workers, std::uint64_t generation) {
  Plan plan;
  plan.generation = generation;
  plan.tables = {{0, kRows, 7}, {kRows * 7, kRows, 1}};
  if (kept == Kept::kByKey) plan.sparse = {{kRows, 3, 0}, {kRows, 4, 0}};
  plan.pull = Pull::kPartial;
  plan.parameters = plan.floats = kRows * 8 + 2'000;
  plan.buckets = {
      {1'000, plan.parameters}, {300, 1'000}, {0, 300}, {plan.parameters, plan.parameters}};
  plan.trainable = {{0, static_cast<std::int64_t>(plan.parameters)}};
  plan.lanes = kLanes;
  plan.ends = collective::equal_shares(kLanes, std::min<std::int64_t>(kLanes, workers));
  plan.async = AsyncRule{};
  return plan;
}

// A third of the rows; of the second table none in every fifth task.
RowLists rows_of(std::int64_t task) {
  RowLists lists(2);
  for (std::uint32_t row = 0; row < kRows; ++row) {
    if ((row + task) % 3 != 0) continue;
    lists[0].push_back(row);
    if (task % 5 != 0) lists[1].push_back(row);
  }
  return lists;
}

struct Outcome {
  int ended = 0;
  std::array<std::map<std::uint32_t, std::vector<float>>, 2> rows;  // By table.
  float dense = 0;
  std::int64_t behind = 0;  // The most steps.
};

// Workers that push ones with a rate of 1: every task takes 1 from the rows that it touches, and
// from all other parameters.
class Generation {
 public:
  Generation(const TestServers& servers, const Way& way, int workers, std::uint64_t number)
      : servers_(servers),
        way_(way),
        workers_(workers),
        plan_(plan_of(way.kept, workers, number)) {}

  Outcome run(std::int64_t from, std::int64_t to, bool loads, const Death& death = {},
              std::optional<std::int64_t> staleness = {}) {
    std::latch prepared(workers_), ended(workers_), told(workers_);
    std::vector<std::jthread> threads;
    std::atomic<int> all_ended = 0;
    Outcome outcome;
    has_died_ = death.worker < 0;
    for (int worker = 0; worker < workers_; ++worker) {
      threads.emplace_back([&, worker] {
        auto client = connect(worker);
        std::vector<float> parameters(plan_.parameters);
        if (worker == 0) prepare(*client, {from, to, staleness}, loads);
        prepared.arrive_and_wait();
        const Result<TaskGiven> last = work(*client, worker, death, parameters);
        if (worker == death.worker) has_died_ = true;
        if (!last.ok()) client.reset();
        const bool is_over = last.ok() && last->end;
        if (is_over) ++all_ended;
        ended.arrive_and_wait();
        if (worker == 0 && is_over && all_ended == workers_) {
          read(*client, last->end->end(), outcome);
          outcome.behind = last->end->tally().staleness_size() - 1;
        }
        told.arrive_and_wait();  // Who leaves ends the generation.
      });
    }
    threads.clear();
    outcome.ended = all_ended;
    return outcome;
  }

 private:
  std::unique_ptr<Client> connect(int worker) {
    auto client = Client::connect({.servers = servers_.endpoints(),
                                   .token = servers_.token(),
                                   .plan = plan_,
                                   .worker = worker,
                                   .name = "worker " + std::to_string(worker),
                                   .sharing = way_.sharing},
                                  deadline_after(seconds(20)));
    TANDEM_CHECK(client.ok());
    return std::move(client).value();
  }

  void prepare(Client& client, const StretchPlan& stretch, bool loads) const {
    std::vector<float> zeros(plan_.parameters);
    const Deadline deadline = deadline_after(seconds(20));
    EXPECT_TRUE(loads || client.all_have(stretch.from));
    const Status ready =
        loads ? client.load(stretch.from, {zeros}, deadline) : client.use(stretch.from, deadline);
    EXPECT_TRUE(ready.ok()) << ready.error().message();
    EXPECT_TRUE(client.begin_stretch(stretch, deadline).ok());
  }

  // Where the row of a list lies in the worker's vector.
  std::size_t place_of(std::size_t table, std::uint32_t row, std::size_t index) const {
    const Table& held = plan_.tables[table];
    return held.begin + (way_.kept == Kept::kByKey ? index : row) * held.width;
  }

  Result<TaskGiven> work(Client& client, int worker, const Death& death,
                         std::vector<float>& parameters) {
    TANDEM_TRY(client.pull(deadline_after(seconds(20))));
    TaskDone done;
    for (int tasks = 0;; ++tasks) {
      TANDEM_ASSIGN(TaskGiven given, client.next_task(done, deadline_after(seconds(20))));
      if (given.end) return given;
      if (given.pull) TANDEM_TRY(client.pull(deadline_after(seconds(20))));
      const Deadline patience = deadline_after(seconds(20));
      while (worker != death.worker && tasks > 0 && !has_died_ &&
             std::chrono::steady_clock::now() < patience)
        std::this_thread::yield();
      const RowLists rows = rows_of(given.task);
      TANDEM_TRY(client.pull_rows(given.task, std::span(&rows, 1), parameters,
                                  deadline_after(seconds(20))));
      const std::span<float> gradient = client.partial(0);
      std::fill(gradient.begin(), gradient.end(), 0.0F);
      std::fill(gradient.begin() + kRows * 8, gradient.end(), 1.0F);
      for (std::size_t table = 0; table < 2; ++table) {
        for (std::size_t i = 0; i < rows[table].size(); ++i) {
          const auto at = static_cast<std::ptrdiff_t>(place_of(table, rows[table][i], i));
          std::fill_n(gradient.begin() + at, plan_.tables[table].width, 1.0F);
        }
      }
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

  void read(Client& client, std::int64_t step, Outcome& outcome) const {
    const Deadline deadline = deadline_after(seconds(20));
    ASSERT_TRUE(client.pull(deadline).ok());
    outcome.dense = client.result({kRows * 8, kRows * 8 + 1})[0];
    ASSERT_TRUE(client.use(step, deadline).ok());
    if (way_.kept == Kept::kInSlices) {
      std::vector<float> all(plan_.parameters);
      ASSERT_TRUE(client.fetch_tables(step, all, deadline).ok());
      for (std::size_t table = 0; table < 2; ++table) {
        for (std::uint32_t row = 0; row < kRows; ++row) {
          const auto at = all.begin() + static_cast<std::ptrdiff_t>(place_of(table, row, 0));
          outcome.rows[table][row].assign(
              at, at + static_cast<std::ptrdiff_t>(plan_.tables[table].width));
        }
      }
      return;
    }
    const Status all = client.read_tables(
        step,
        [&](const TableRecords& records) {
          if (records.what != Records::kRows) return Status();
          for (std::size_t at = 0; at < records.bytes.size(); at += records.record_bytes) {
            std::uint64_t key;
            std::memcpy(&key, records.bytes.data() + at, sizeof key);
            std::vector<float> row(plan_.tables[records.table].width);
            std::memcpy(row.data(), records.bytes.data() + at + Row::kHeadBytes, 4 * row.size());
            outcome.rows[records.table][static_cast<std::uint32_t>(key)] = row;
          }
          return Status();
        },
        deadline);
    ASSERT_TRUE(all.ok()) << all.error().message();
  }

  const TestServers& servers_;
  const Way way_;
  const int workers_;
  const Plan plan_;
  std::atomic<bool> has_died_ = false;
};

class AsyncRows : public testing::TestWithParam<Way> {
 protected:
  static void expect_tasks(const Outcome& outcome, std::int64_t from, std::int64_t to) {
    std::array<std::map<std::uint32_t, float>, 2> expected;
    for (std::int64_t task = from * kLanes; task < to * kLanes; ++task) {
      const RowLists rows = rows_of(task);
      for (std::size_t table = 0; table < 2; ++table) {
        for (const std::uint32_t row : rows[table]) --expected[table][row];
      }
    }
    EXPECT_EQ(outcome.dense, static_cast<float>((from - to) * kLanes));
    for (std::size_t table = 0; table < 2; ++table) {
      ASSERT_EQ(outcome.rows[table].size(), expected[table].size());
      for (const auto& [row, floats] : outcome.rows[table])
        EXPECT_EQ(floats, std::vector<float>(floats.size(), expected[table][row])) << row;
    }
  }
};

TEST_P(AsyncRows, EveryTaskIsAppliedOnce) {
  for (const std::size_t count : {1, 3}) {
    TestServers servers(count);
    Outcome outcome = Generation(servers, GetParam(), 3, 1).run(0, 20, /*loads=*/true);
    EXPECT_EQ(outcome.ended, 3);
    expect_tasks(outcome, 0, 20);
    // The next stretch goes on from there.
    outcome = Generation(servers, GetParam(), 2, 2).run(20, 24, /*loads=*/false);
    expect_tasks(outcome, 0, 24);
  }
}

TEST_P(AsyncRows, TheBoundOfStalenessHolds) {
  TestServers servers(2, "token", nullptr, kLeastCredit);
  const Outcome outcome = Generation(servers, GetParam(), 3, 1).run(0, 20, /*loads=*/true, {}, 1);
  EXPECT_EQ(outcome.ended, 3);
  EXPECT_LE(outcome.behind, 1);
  expect_tasks(outcome, 0, 20);
}

TEST_P(AsyncRows, WhatALostWorkerHadPushedOfATaskIsNotAppliedTwice) {
  for (const std::size_t buckets : {0, 1, 2, 3}) {
    TestServers servers(3);
    Outcome outcome =
        Generation(servers, GetParam(), 3, 1).run(5, 20, /*loads=*/true, {1, 4, buckets});
    EXPECT_EQ(outcome.ended, 0);
    outcome = Generation(servers, GetParam(), 2, 2).run(5, 20, /*loads=*/false, {0, 3, buckets});
    EXPECT_EQ(outcome.ended, 0);
    outcome = Generation(servers, GetParam(), 3, 3).run(5, 20, /*loads=*/false);
    EXPECT_EQ(outcome.ended, 3);
    expect_tasks(outcome, 5, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AsyncRows,
                         testing::Values(Way{Kept::kInSlices, Sharing::kWhereItCan},
                                         Way{Kept::kInSlices, Sharing::kNever},
                                         Way{Kept::kByKey, Sharing::kWhereItCan},
                                         Way{Kept::kByKey, Sharing::kNever}),
                         [](const auto& each) {
                           return std::string(each.param.kept == Kept::kByKey ? "ByKey"
                                                                              : "InSlices") +
                                  (each.param.sharing == Sharing::kNever ? "Tcp" : "SharedMemory");
                         });

}  // namespace
}  // namespace tandem::ps
