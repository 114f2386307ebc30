// Partial pulls between workers and servers: the same bits as with everything, and fewer bytes.
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <limits>
#include <memory>

#include "base/rng.h"
#include "optim/clip.h"
#include "ps/client.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

constexpr std::size_t kTableFloats = 300 * 7 + 100 * 3;

// Two tables, then 5,000 parameters, then 11 sums, in buckets that cut tables and rows.
Plan plan_of(std::int64_t lanes, std::int64_t workers) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = kTableFloats + 5'000;
  plan.floats = plan.parameters + 11;
  for (std::size_t end = plan.parameters; end > 0;) {
    const std::size_t begin = end > 1'000 ? end - 1'000 : 0;
    plan.buckets.push_back({begin, end});
    end = begin;
  }
  plan.buckets.push_back({plan.parameters, plan.floats});
  plan.trainable = {{0, static_cast<std::int64_t>(plan.parameters)}};
  plan.optimizer.kind = optim::OptimizerKind::kAdagrad;
  plan.lanes = lanes;
  plan.ends = collective::equal_shares(lanes, workers);
  plan.pull = Pull::kPartial;
  plan.tables = {{0, 300, 7}, {2'100, 100, 3}};
  return plan;
}

std::uint64_t random_of(std::int64_t step, std::size_t partial, std::size_t index) {
  return Rng({7, static_cast<std::uint64_t>(step), partial}).at(index);
}

// Few rows; in some steps those of others, in some none.
RowLists touched(const Plan& plan, std::int64_t step, std::size_t partial) {
  RowLists lists(plan.tables.size());
  for (std::size_t table = 0; table < lists.size(); ++table) {
    if (random_of(step, partial, table) % 5 == 0) continue;
    for (std::uint32_t row = 0; row < plan.tables[table].rows; ++row) {
      if (random_of(step, partial, 1'000 * (1 + table) + row) % 23 == 0)
        lists[table].push_back(row);
    }
  }
  return lists;
}

// What a partial sum is: zero in rows that it does not touch.
void write(const Plan& plan, std::int64_t step, std::size_t partial, const RowLists& rows,
           std::span<float> vector) {
  const auto value = [&](std::size_t i) {
    return static_cast<float>(random_of(step, partial, i) % 2001) / 1000.0F - 1.0F;
  };
  std::fill(vector.begin(), vector.end(), 0.0F);
  for (std::size_t i = plan.tables.empty() ? 0 : kTableFloats; i < plan.floats; ++i)
    vector[i] = value(i);
  for (std::size_t table = 0; table < plan.tables.size(); ++table) {
    const std::size_t width = plan.tables[table].width;
    for (const std::uint32_t row : rows[table]) {
      const std::size_t begin = plan.tables[table].begin + row * width;
      for (std::size_t i = begin; i < begin + width; ++i) vector[i] = value(i);
    }
  }
}

// A worker alone, which computes with whole vectors.
class Alone {
 public:
  explicit Alone(const Plan& plan)
      : plan_(plan), parameters(plan.parameters), partials_(collective::partials_of(plan.ends)) {
    Rng rng({3});
    for (float& value : parameters) value = rng.normal();
    optimizer_ = std::move(optim::Optimizer::create(plan.optimizer,
                                                    static_cast<std::int64_t>(plan.parameters)))
                     .value();
  }

  void step(std::int64_t step) {
    std::vector<std::vector<float>> memory(partials_.size(), std::vector<float>(plan_.floats));
    std::vector<const float*> sources;
    for (std::size_t i = 0; i < partials_.size(); ++i) {
      write(plan_, step, i, touched(plan_, step, i), memory[i]);
      sources.push_back(memory[i].data());
    }
    sums.resize(plan_.floats);
    collective::add_partials({0, plan_.lanes}, partials_, sources, {0, plan_.floats}, sums.data());
    const std::span<float> gradients = std::span(sums).first(plan_.parameters);
    optim::clip_by_value(gradients, plan_.clip, plan_.trainable);
    const optim::Clipping clipping = optim::clip_by_norm(gradients, plan_.clip, plan_.trainable);
    optimizer_->step(parameters, gradients, 0.1, plan_.trainable, clipping.scale);
  }

  std::vector<std::span<float>> state() {
    std::vector<std::span<float>> arrays{parameters};
    for (const optim::StateTensor& tensor : optimizer_->state()) arrays.push_back(tensor.values);
    return arrays;
  }

 private:
  const Plan plan_;

 public:
  std::vector<float> parameters, sums;

 private:
  const std::vector<collective::Partial> partials_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

std::unique_ptr<Client> connect(const TestServers& servers, const Plan& plan, int worker,
                                Sharing sharing) {
  auto client = Client::connect({.servers = servers.endpoints(),
                                 .token = servers.token(),
                                 .plan = plan,
                                 .worker = worker,
                                 .name = "worker " + std::to_string(worker),
                                 .sharing = sharing},
                                deadline_after(seconds(20)));
  TANDEM_CHECK(client.ok());
  return std::move(client).value();
}

std::vector<float> whole(std::span<const float> some) {
  return {some.begin(), some.end()};
}

// A worker with its own copy of the parameters, of which it keeps up only what it is given.
class Worker {
 public:
  Worker(const TestServers& servers, const Plan& plan, int number, Sharing sharing)
      : plan_(plan), client(connect(servers, plan, number, sharing)), parameters(plan.parameters) {
    const auto all = collective::partials_of(plan.ends);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].worker == number) partials_.push_back(i);
    }
  }

  // One that fails says so.
  bool step(std::int64_t step) {
    std::vector<RowLists> rows;
    for (std::size_t i = 0; i < partials_.size(); ++i) {
      rows.push_back(touched(plan_, step, partials_[i]));
      write(plan_, step, partials_[i], rows.back(), client->partial(i));
    }
    Status status = plan_.tables.empty()
                        ? Status()
                        : client->pull_rows(step, rows, parameters, deadline_after(seconds(20)));
    if (status.ok()) client->begin(step, 0.1);
    for (std::size_t i = 0; i < plan_.buckets.size() && status.ok(); ++i) status = client->ready(1);
    if (status.ok()) status = client->finish(deadline_after(seconds(20)));
    EXPECT_TRUE(status.ok()) << status.error().message();
    return status.ok();
  }

  // Whether it has the rows that it asked for, of these parameters.
  bool has_rows(std::int64_t step, std::span<const float> expected) const {
    bool equal = true;
    for (const std::size_t partial : partials_) {
      const RowLists lists = touched(plan_, step, partial);
      for (std::size_t table = 0; table < lists.size(); ++table) {
        const std::size_t width = plan_.tables[table].width;
        for (const std::uint32_t row : lists[table]) {
          const auto at = static_cast<std::ptrdiff_t>(plan_.tables[table].begin + row * width);
          equal &= std::equal(parameters.begin() + at,
                              parameters.begin() + at + static_cast<std::ptrdiff_t>(width),
                              expected.begin() + at);
        }
      }
    }
    return equal;
  }

  std::vector<float> results(std::size_t begin, std::size_t end) const {
    std::vector<float> all;
    while (begin + all.size() < end) {
      const auto some = client->result({begin + all.size(), end});
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

 private:
  const Plan plan_;
  std::vector<std::size_t> partials_;

 public:
  std::unique_ptr<Client> client;
  std::vector<float> parameters;
};

// Steps [from, to) of all workers, each on a thread; what they have afterwards is that of one
// alone.
void train_and_compare(const TestServers& servers, const Plan& plan, std::int64_t from,
                       std::int64_t to, Sharing sharing) {
  Alone alone(plan);
  std::vector<std::vector<float>> before;  // By step.
  for (std::int64_t step = 0; step < to; ++step) {
    before.push_back(alone.parameters);
    alone.step(step);
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < static_cast<int>(plan.workers()); ++i)
    workers.push_back(std::make_unique<Worker>(servers, plan, i, sharing));
  Alone first(plan);
  const Status ready = from == 0
                           ? workers[0]->client->load(0, first.state(), deadline_after(seconds(20)))
                           : workers[0]->client->use(from, deadline_after(seconds(20)));
  ASSERT_TRUE(ready.ok()) << ready.error().message();
  std::latch finished(static_cast<std::ptrdiff_t>(plan.workers()));
  std::vector<std::future<void>> running;
  for (auto& worker : workers) {
    running.push_back(std::async(std::launch::async, [&] {
      for (std::int64_t step = from; step < to; ++step) {
        if (!worker->step(step)) break;
        EXPECT_TRUE(worker->has_rows(step, before[static_cast<std::size_t>(step)]));
      }
      finished.arrive_and_wait();
    }));
  }
  for (auto& each : running) each.get();
  for (auto& worker : workers) {
    const Status fetched =
        worker->client->fetch_tables(to, worker->parameters, deadline_after(seconds(20)));
    ASSERT_TRUE(fetched.ok()) << fetched.error().message();
    EXPECT_EQ(whole(std::span(worker->parameters).first(kTableFloats)),
              whole(std::span(alone.parameters).first(kTableFloats)));
    EXPECT_EQ(worker->results(kTableFloats, plan.parameters),
              whole(std::span(alone.parameters).subspan(kTableFloats)));
    EXPECT_EQ(worker->results(plan.parameters, plan.floats),
              whole(std::span(alone.sums).subspan(plan.parameters)));
  }
  std::vector<std::vector<float>> fetched;
  Arrays arrays;
  for (const std::span<float> array : alone.state()) fetched.emplace_back(array.size());
  for (std::vector<float>& array : fetched) arrays.emplace_back(array);
  ASSERT_TRUE(workers[0]->client->fetch(to, arrays, deadline_after(seconds(20))).ok());
  for (std::size_t i = 0; i < fetched.size(); ++i)
    EXPECT_EQ(fetched[i], whole(alone.state()[i])) << "array " << i;
}

TEST(PartialPull, OfRowsGivesTheBitsOfWholeTables) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const std::size_t servers : {1, 2, 3}) {
      for (const std::int64_t workers : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << servers << " servers, " << workers << " workers");
        TestServers running(servers);
        train_and_compare(running, plan_of(4, workers), 0, 6, sharing);
      }
    }
  }
}

TEST(PartialPull, WorksWithPlainSgdAndClippingByValue) {
  Plan plan = plan_of(3, 2);
  plan.optimizer.kind = optim::OptimizerKind::kSgd;
  plan.clip.value = 0.25;
  TestServers running(2);
  train_and_compare(running, plan, 0, 5, Sharing::kNever);
}

// Rows that nobody touches change with these, too.
TEST(PartialPull, WorksWithOptimizersThatChangeUntouchedRows) {
  using optim::OptimizerKind;
  for (const optim::OptimizerConfig& optimizer :
       {optim::OptimizerConfig{.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true},
        {.kind = OptimizerKind::kSgd, .weight_decay = 0.01},
        {.kind = OptimizerKind::kAdam, .weight_decay = 0.01},
        {.kind = OptimizerKind::kAdagrad, .l1 = 0.001}}) {
    Plan plan = plan_of(4, 3);
    plan.optimizer = optimizer;
    TestServers running(2);
    train_and_compare(running, plan, 0, 4, Sharing::kWhereItCan);
    plan.generation = 2;
    train_and_compare(running, plan, 3, 6, Sharing::kNever);
  }
}

TEST(PartialPull, ClipsByTheNormOfAllRows) {
  for (const optim::OptimizerKind kind :
       {optim::OptimizerKind::kAdagrad, optim::OptimizerKind::kAdam}) {
    for (const std::size_t servers : {1, 2, 4}) {
      Plan plan = plan_of(4, 2);
      plan.optimizer.kind = kind;
      plan.clip = {.norm = 5, .value = 0.9};
      TestServers running(servers);
      train_and_compare(running, plan, 0, 4, Sharing::kNever);
    }
  }
}

TEST(PartialPull, GoesOnFromTheLastStepAndTheOneBefore) {
  TestServers running(2);
  Plan plan = plan_of(4, 2);
  train_and_compare(running, plan, 0, 5, Sharing::kWhereItCan);
  plan.generation = 2;
  train_and_compare(running, plan, 5, 8, Sharing::kNever);
  plan.generation = 3;
  train_and_compare(running, plan, 7, 9, Sharing::kWhereItCan);
}

// Copies are compared when a generation begins, too.
TEST(PartialPull, CopiesHaveTheSameBits) {
  using optim::OptimizerKind;
  for (const OptimizerKind kind : {OptimizerKind::kAdagrad, OptimizerKind::kAdam}) {
    TestServers running(3);
    Plan plan = plan_of(4, 2);
    plan.optimizer.kind = kind;
    plan.clip.norm = kind == OptimizerKind::kAdam ? 5 : 0;
    plan.replicas = 2;
    train_and_compare(running, plan, 0, 5, Sharing::kWhereItCan);
    plan.generation = 2;
    train_and_compare(running, plan, 4, 8, Sharing::kNever);
    plan.generation = 3;
    const auto next = connect(running, plan, 0, Sharing::kNever);
    ASSERT_TRUE(next->all_have(8));
    ASSERT_TRUE(next->use(8, deadline_after(seconds(20))).ok());
    const Status equal = next->compare_copies(8, deadline_after(seconds(20)));
    EXPECT_TRUE(equal.ok()) << equal.error().message();
  }
}

TEST(PartialPull, MovesFarFewerBytesThanWholeTables) {
  std::vector<std::uint64_t> sent, received;
  for (const Pull pull : {Pull::kFull, Pull::kPartial}) {
    Plan plan = plan_of(1, 1);
    plan.pull = pull;
    plan.tables = {{0, 1'000, 7}};
    plan.parameters = 7'000;
    plan.floats = 7'001;
    plan.buckets = {{0, 7'000}, {7'000, 7'001}};
    plan.trainable = {{0, 7'000}};
    if (pull == Pull::kFull) plan.tables.clear();
    TestServers running(1);
    Worker worker(running, plan, 0, Sharing::kNever);
    Alone first(plan);
    ASSERT_TRUE(worker.client->load(0, first.state(), deadline_after(seconds(20))).ok());
    const collective::Traffic before = worker.client->traffic();
    const RowLists rows = {{1, 5, 17, 999}};
    for (std::int64_t step = 0; step < 10; ++step) {
      Status pulled;
      if (pull == Pull::kPartial) {
        pulled = worker.client->pull_rows(step, std::span(&rows, 1), worker.parameters,
                                          deadline_after(seconds(20)));
      }
      ASSERT_TRUE(pulled.ok()) << pulled.error().message();
      worker.client->begin(step, 0.1);
      ASSERT_TRUE(worker.client->ready(2).ok());
      ASSERT_TRUE(worker.client->finish(deadline_after(seconds(20))).ok());
    }
    sent.push_back(worker.client->traffic().sent - before.sent);
    received.push_back(worker.client->traffic().received - before.received);
  }
  EXPECT_EQ(sent[0], 10 * 7'001 * sizeof(float));
  // The list once, in five bytes, then four rows and the sum in every step.
  EXPECT_EQ(sent[1], 5 + 10 * 29 * sizeof(float));
  EXPECT_EQ(received[1], 10 * 29 * sizeof(float));
}

TEST(PartialPull, LeavesOutFrozenParameters) {
  for (const double norm : {0.0, 0.5}) {
    std::uint64_t least = ~std::uint64_t{0};
    for (const Pull pull : {Pull::kFull, Pull::kPartial}) {
      Plan plan = plan_of(1, 1);
      plan.pull = pull;
      plan.tables.clear();
      plan.clip.norm = norm;
      plan.trainable = {{4'100, 4'200}, {5'000, 5'500}};
      TestServers running(3);  // The first holds nothing that is trained.
      Worker worker(running, plan, 0, Sharing::kNever);
      Alone alone(plan);
      ASSERT_TRUE(worker.client->load(0, alone.state(), deadline_after(seconds(20))).ok());
      const std::uint64_t before = worker.client->traffic().sent;
      for (std::int64_t step = 0; step < 3; ++step) {
        ASSERT_TRUE(worker.step(step));
        alone.step(step);
      }
      const std::uint64_t sent = worker.client->traffic().sent - before;
      EXPECT_LT(sent, least);
      least = sent;
      for (const auto& [begin, end] : {std::pair(4'100U, 4'200U), {5'000U, 5'500U}})
        EXPECT_EQ(worker.results(begin, end),
                  whole(std::span(alone.parameters).subspan(begin, end - begin)));
      plan.generation = 2;
      const auto next = connect(running, plan, 0, Sharing::kNever);
      EXPECT_TRUE(next->all_have(3));
    }
    EXPECT_LT(least, 3 * 700 * sizeof(float));
  }
}

TEST(PartialPull, DoesNotPushWhatIsNoNumber) {
  const Plan plan = plan_of(1, 1);
  TestServers running(1);
  Worker worker(running, plan, 0, Sharing::kNever);
  Alone first(plan);
  ASSERT_TRUE(worker.client->load(0, first.state(), deadline_after(seconds(20))).ok());
  const RowLists rows = {{3}, {}};
  ASSERT_TRUE(
      worker.client
          ->pull_rows(0, std::span(&rows, 1), worker.parameters, deadline_after(seconds(20)))
          .ok());
  worker.client->partial(0)[3 * 7 + 1] = std::numeric_limits<float>::infinity();
  worker.client->begin(0, 0.1);
  const Status status = worker.client->ready(plan.buckets.size());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kDiverged);
  EXPECT_NE(status.error().message().find("row 3 of table 0"), std::string::npos);
}

}  // namespace
}  // namespace tandem::ps
