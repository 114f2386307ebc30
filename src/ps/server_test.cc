#include "ps/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <latch>

#include "base/descriptor.h"
#include "base/rng.h"
#include "net/certificates_testing.h"
#include "optim/clip.h"
#include "ps/client.h"
#include "ps/connect.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

// Buckets from the end of the parameters to their beginning, then what is only summed.
std::vector<Bucket> buckets_of(std::size_t parameters, std::size_t floats, std::size_t each) {
  std::vector<Bucket> buckets;
  for (std::size_t end = parameters; end > 0;) {
    const std::size_t begin = end > each ? end - each : 0;
    buckets.push_back({begin, end});
    end = begin;
  }
  buckets.push_back({parameters, floats});
  return buckets;
}

Plan plan_of(std::size_t parameters, std::size_t summed, std::int64_t lanes, std::int64_t workers) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = parameters;
  plan.floats = parameters + summed;
  plan.buckets = buckets_of(parameters, plan.floats, 10'000);
  plan.trainable = {{0, static_cast<std::int64_t>(parameters)}};
  plan.optimizer.momentum = 0.9;
  plan.lanes = lanes;
  plan.ends = collective::equal_shares(lanes, workers);
  return plan;
}

// What lane `lane` gives in a step.
float given(std::int64_t step, std::int64_t partial, std::size_t index) {
  const Rng rng({7, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(partial)});
  return static_cast<float>(rng.at(index) % 2001) / 1000.0F - 1.0F;
}

std::vector<float> first_parameters(const Plan& plan) {
  Rng rng({3});
  std::vector<float> parameters(plan.parameters);
  for (float& value : parameters) value = rng.normal();
  return parameters;
}

// The parameters, then the sums of the last step.
std::vector<float> computed_alone(const Plan& plan, std::int64_t steps) {
  std::vector<float> parameters = first_parameters(plan), sums(plan.floats);
  auto optimizer =
      optim::Optimizer::create(plan.optimizer, static_cast<std::int64_t>(plan.parameters));
  const auto partials = collective::partials_of(plan.ends);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> memory(partials.size(), std::vector<float>(plan.floats));
    std::vector<const float*> sources;
    for (std::size_t i = 0; i < partials.size(); ++i) {
      for (std::size_t j = 0; j < plan.floats; ++j)
        memory[i][j] = given(step, static_cast<std::int64_t>(i), j);
      sources.push_back(memory[i].data());
    }
    collective::add_partials({0, plan.lanes}, partials, sources, {0, plan.floats}, sums.data());
    std::span<float> gradients = std::span(sums).first(plan.parameters);
    optim::clip_by_value(gradients, plan.clip, plan.trainable);
    const optim::Clipping clipping = optim::clip_by_norm(gradients, plan.clip, plan.trainable);
    (*optimizer)->step(parameters, gradients, 0.1, plan.trainable, clipping.scale);
  }
  std::copy(parameters.begin(), parameters.end(), sums.begin());
  return sums;
}

std::vector<float> all_results(const Client& client, std::size_t floats) {
  std::vector<float> all;
  while (all.size() < floats) {
    const std::span<const float> some = client.result({all.size(), floats});
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

Status one_step(Client& client, const Plan& plan, std::int64_t worker, std::int64_t step) {
  const auto partials = collective::partials_of(plan.ends);
  std::size_t own = 0;
  for (std::size_t i = 0; i < partials.size(); ++i) {
    if (partials[i].worker != worker) continue;
    const std::span<float> memory = client.partial(own++);
    for (std::size_t j = 0; j < plan.floats; ++j)
      memory[j] = given(step, static_cast<std::int64_t>(i), j);
  }
  client.begin(step, 0.1);
  for (std::size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) TANDEM_TRY(client.ready(1));
  return client.finish(deadline_after(seconds(20)));
}

Result<std::unique_ptr<Client>> connect(const TestServers& servers, const Plan& plan, int worker,
                                        Sharing sharing) {
  return Client::connect({.servers = servers.endpoints(),
                          .token = servers.token(),
                          .tls = servers.tls(),
                          .plan = plan,
                          .worker = worker,
                          .name = "worker " + std::to_string(worker),
                          .sharing = sharing},
                         deadline_after(seconds(20)));
}

// Steps [from, to) of all workers, each on a thread; the first brings the state before the first
// step. The last results of every worker.
std::vector<std::vector<float>> train(const TestServers& servers, const Plan& plan,
                                      std::int64_t from, std::int64_t to, Sharing sharing) {
  std::vector<std::future<std::vector<float>>> workers;
  std::latch finished(static_cast<std::ptrdiff_t>(plan.workers()));  // As a training's end is.
  std::promise<void> loaded;
  const std::shared_future<void> is_loaded = loaded.get_future().share();
  for (int worker = 0; worker < static_cast<int>(plan.workers()); ++worker) {
    workers.push_back(std::async(std::launch::async, [&, worker]() -> std::vector<float> {
      auto client = connect(servers, plan, worker, sharing);
      if (worker == 0) {
        std::vector<float> parameters = first_parameters(plan), momentum(plan.parameters);
        if (client.ok()) {
          Arrays state = {parameters};
          if (plan.optimizer.momentum != 0) state.emplace_back(momentum);
          const Status ready = from == 0 ? (*client)->load(0, state, deadline_after(seconds(20)))
                                         : (*client)->use(from, deadline_after(seconds(20)));
          EXPECT_TRUE(ready.ok()) << ready.error().message();
        }
        loaded.set_value();
      }
      is_loaded.wait();
      EXPECT_TRUE(client.ok()) << client.error().message();
      if (!client.ok()) {
        finished.count_down();
        return {};
      }
      EXPECT_EQ((*client)->shares_memory(), sharing == Sharing::kWhereItCan);
      for (std::int64_t step = from; step < to; ++step) {
        const Status status = one_step(**client, plan, worker, step);
        EXPECT_TRUE(status.ok()) << status.error().message();
        if (!status.ok()) break;
      }
      finished.arrive_and_wait();
      return all_results(**client, plan.floats);
    }));
  }
  std::vector<std::vector<float>> results;
  for (auto& worker : workers) results.push_back(worker.get());
  return results;
}

TEST(Server, GivesTheBitsOfAWorkerAlone) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const std::size_t servers : {1, 2, 3}) {
      for (const std::int64_t workers : {1, 2, 3}) {
        const Plan plan = plan_of(50'000, 77, 4, workers);
        TestServers running(servers);
        const std::vector<float> alone = computed_alone(plan, 3);
        for (const std::vector<float>& result : train(running, plan, 0, 3, sharing))
          EXPECT_EQ(result, alone) << servers << " servers, " << workers << " workers";
      }
    }
  }
}

TEST(Server, GivesTheSameBitsInsideTls) {
  const net::TestCertificates certificates;
  const Plan plan = plan_of(50'000, 77, 4, 2);
  const std::vector<float> alone = computed_alone(plan, 3);
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    TestServers running(2, "token", net::load_tls(certificates.files("node", "ours")).value());
    for (const std::vector<float>& result : train(running, plan, 0, 3, sharing))
      EXPECT_EQ(result, alone);
  }
}

TEST(Server, SpeaksToNobodyWithoutTheSameKindOfConnection) {
  const net::TestCertificates certificates;
  const std::shared_ptr<const net::Tls> none,
      node = net::load_tls(certificates.files("node", "ours")).value(),
      stranger = net::load_tls(certificates.files("stranger", "theirs")).value();
  const std::pair<std::shared_ptr<const net::Tls>, std::shared_ptr<const net::Tls>> pairs[] = {
      {node, none}, {none, node}, {node, stranger}};
  for (const auto& [servers, worker] : pairs) {
    TestServers running(1, "token", servers);
    const auto client = Client::connect({.servers = running.endpoints(),
                                         .token = running.token(),
                                         .tls = worker,
                                         .plan = plan_of(100, 1, 1, 1),
                                         .worker = 0,
                                         .name = "worker 0",
                                         .sharing = Sharing::kNever},
                                        deadline_after(seconds(20)));
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().code(), Code::kDenied) << client.error().message();
  }
}

// A piece that is alone is not copied, and plain sgd not updated in place.
TEST(Server, GivesTheBitsOfPlainSgd) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const double most : {0.0, 0.25}) {
      for (const std::int64_t workers : {1, 2}) {
        Plan plan = plan_of(50'000, 3, 2, workers);
        plan.buckets = buckets_of(plan.parameters, plan.floats, plan.parameters);
        plan.trainable = {{5, 20'000}, {20'001, 50'000}};
        plan.optimizer.momentum = 0;
        plan.optimizer.weight_decay = 0.01;
        plan.clip.value = most;
        TestServers running(1);
        const std::vector<float> alone = computed_alone(plan, 3);
        for (const std::vector<float>& result : train(running, plan, 0, 3, sharing))
          EXPECT_EQ(result, alone) << workers << " workers, clipped at " << most;
      }
    }
  }
}

TEST(Server, TakesMorePiecesThanARingHolds) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    Plan plan = plan_of(10'000, 1, 3, 2);
    plan.buckets = buckets_of(plan.parameters, plan.floats, 4);
    ASSERT_GT(plan.buckets.size(), 4 * RingMemory::kSlots);
    TestServers running(1);
    const std::vector<float> alone = computed_alone(plan, 2);
    for (const std::vector<float>& result : train(running, plan, 0, 2, sharing))
      EXPECT_EQ(result, alone);
  }
}

TEST(Server, WorkersKeepToTheirCredit) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const double norm : {0.0, 0.5}) {
      Plan plan = plan_of(50'000, 77, 4, 2);
      plan.replicas = 2;
      plan.clip.norm = norm;
      TestServers running(2, "token", nullptr, 1);  // A piece at a time.
      const std::vector<float> alone = computed_alone(plan, 3);
      for (const std::vector<float>& result : train(running, plan, 0, 3, sharing))
        EXPECT_EQ(result, alone);
    }
  }
}

TEST(Server, MayHaveNothingToHold) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const std::size_t parameters : {1, 3}) {
      const Plan plan = plan_of(parameters, 1, 2, 2);
      TestServers running(3);
      const std::vector<float> alone = computed_alone(plan, 2);
      for (const std::vector<float>& result : train(running, plan, 0, 2, sharing))
        EXPECT_EQ(result, alone) << parameters << " parameters";
    }
  }
}

TEST(Server, MayHoldOnlyWhatIsSummed) {
  for (const double norm : {0.0, 0.5}) {
    Plan plan = plan_of(optim::kSquaresBlock, 3, 2, 2);
    plan.clip.norm = norm;
    TestServers running(3);
    const std::vector<float> alone = computed_alone(plan, 2);
    for (const std::vector<float>& result : train(running, plan, 0, 2, Sharing::kNever))
      EXPECT_EQ(result, alone) << "norm " << norm;
    plan.generation = 2;
    const auto client = connect(running, plan, 0, Sharing::kNever);
    ASSERT_TRUE(client.ok()) << client.error().message();
    EXPECT_TRUE((*client)->all_have(2));
  }
}

TEST(Server, ClipsByTheNormOfAllServers) {
  Plan plan = plan_of(30'000, 5, 3, 2);
  plan.clip = {.norm = 0.5, .value = 0.7};
  TestServers running(3);
  const std::vector<float> alone = computed_alone(plan, 3);
  for (const std::vector<float>& result : train(running, plan, 0, 3, Sharing::kNever))
    EXPECT_EQ(result, alone);
}

TEST(Server, GoesOnInTheNextGeneration) {
  Plan plan = plan_of(30'000, 5, 4, 2);
  TestServers running(2);
  train(running, plan, 0, 2, Sharing::kWhereItCan);
  plan.generation = 2;
  plan.ends = collective::equal_shares(4, 1);
  const std::vector<float> alone = computed_alone(plan_of(30'000, 5, 4, 2), 2);
  const auto client = connect(running, plan, 0, Sharing::kNever);
  ASSERT_TRUE(client.ok()) << client.error().message();
  EXPECT_TRUE((*client)->all_have(2));
  EXPECT_TRUE((*client)->all_have(1));
  EXPECT_FALSE((*client)->all_have(3));
  EXPECT_TRUE((*client)->can_fetch(2));
  std::vector<float> parameters(plan.parameters), momentum(plan.parameters);
  const Status fetched = (*client)->fetch(2, {parameters, momentum}, deadline_after(seconds(20)));
  ASSERT_TRUE(fetched.ok()) << fetched.error().message();
  EXPECT_TRUE(std::equal(parameters.begin(), parameters.end(), alone.begin()));
}

TEST(Server, RefusesWhoDoesNotKnowTheToken) {
  TestServers running(1);
  const auto client = Client::connect({.servers = running.endpoints(),
                                       .token = "another",
                                       .plan = plan_of(100, 1, 1, 1),
                                       .name = "a stranger"},
                                      deadline_after(seconds(20)));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.error().code(), Code::kDenied);
}

TEST(Server, IsReachedWhileManyOthersSayNothing) {
  const TestServers running(1);
  const net::Endpoint& endpoint = running.endpoints()[0];
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < 5 * Server::kMostStrangers; ++i) {
    silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
              0);
    if (i % Server::kMostStrangers != 0) continue;
    const auto worker =
        connect_to(endpoint, running.token(), running.tls(), deadline_after(seconds(1)));
    ASSERT_TRUE(worker.ok()) << worker.error().message();
  }
  EXPECT_TRUE(
      connect_to(endpoint, running.token(), running.tls(), deadline_after(seconds(1))).ok());
}

TEST(Server, TellsTheOthersWhoIsGone) {
  const Plan plan = plan_of(30'000, 5, 2, 2);
  TestServers running(1);
  auto first = connect(running, plan, 0, Sharing::kNever);
  auto second = connect(running, plan, 1, Sharing::kWhereItCan);
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<float> parameters = first_parameters(plan), momentum(plan.parameters);
  ASSERT_TRUE((*first)->load(0, {parameters, momentum}, deadline_after(seconds(20))).ok());
  second = Error(Code::kCancelled, "gone");
  const Status status = one_step(**first, plan, 0, 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
  EXPECT_NE(status.error().message().find("worker 1"), std::string::npos)
      << status.error().message();
}

TEST(Server, IsMissedByItsWorkers) {
  const Plan plan = plan_of(30'000, 5, 1, 1);
  TestServers running(2);
  auto client = connect(running, plan, 0, Sharing::kWhereItCan);
  ASSERT_TRUE(client.ok());
  std::vector<float> parameters = first_parameters(plan), momentum(plan.parameters);
  ASSERT_TRUE((*client)->load(0, {parameters, momentum}, deadline_after(seconds(20))).ok());
  running.stop(1);
  const Status status = one_step(**client, plan, 0, 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Code::kPeerLost);
  EXPECT_NE(status.error().message().find("server 1"), std::string::npos)
      << status.error().message();
}

TEST(Server, CopiesOfASliceChangeNothing) {
  for (const Sharing sharing : {Sharing::kWhereItCan, Sharing::kNever}) {
    for (const auto& [servers, replicas, parameters] :
         {std::tuple(2, 2, 50'000), {3, 2, 50'000}, {3, 3, 50'000}, {3, 2, 3}}) {
      for (const double norm : {0.0, 0.5}) {
        Plan plan = plan_of(static_cast<std::size_t>(parameters), 77, 4, 2);
        plan.replicas = static_cast<std::size_t>(replicas);
        plan.clip.norm = norm;
        TestServers running(static_cast<std::size_t>(servers));
        const std::vector<float> alone = computed_alone(plan, 3);
        for (const std::vector<float>& result : train(running, plan, 0, 3, sharing))
          EXPECT_EQ(result, alone) << servers << " servers, " << replicas << " copies";
      }
    }
  }
}

// What a worker that is alone in a generation sees, with servers of its choice.
struct Alone {
  Alone(const TestServers& servers, Plan plan_of_all, std::vector<net::Endpoint> present,
        std::vector<net::Endpoint> former = {})
      : plan(std::move(plan_of_all)), parameters(plan.parameters), momentum(plan.parameters) {
    auto connected = Client::connect({.servers = std::move(present),
                                      .former = std::move(former),
                                      .token = servers.token(),
                                      .plan = plan,
                                      .name = "worker 0"},
                                     deadline_after(seconds(20)));
    EXPECT_TRUE(connected.ok()) << connected.error().message();
    if (connected.ok()) client = std::move(connected).value();
  }
  Status load(float value) {
    parameters.assign(plan.parameters, value);
    return client->load(0, {parameters, momentum}, deadline_after(seconds(20)));
  }
  Status restore(std::int64_t step) {
    return client->restore(step, {parameters, momentum}, deadline_after(seconds(20)));
  }

  const Plan plan;
  std::vector<float> parameters, momentum;
  std::unique_ptr<Client> client;
};

// A plan of one worker for a later generation.
Plan later(Plan plan, std::uint64_t generation) {
  plan.generation = generation;
  plan.ends = collective::equal_shares(plan.lanes, 1);
  return plan;
}

TEST(Server, IsReplacedFromTheCopies) {
  Plan plan = plan_of(30'000, 5, 1, 1);
  plan.replicas = 2;
  TestServers running(3);
  train(running, plan, 0, 2, Sharing::kWhereItCan);
  running.stop(1);
  running.start();
  const auto& all = running.endpoints();
  Alone next(running, later(plan, 2), {all[0], all[3], all[2]});
  EXPECT_FALSE(next.client->all_have(2));
  ASSERT_TRUE(next.client->can_fetch(2));
  const Status restored = next.restore(2);
  ASSERT_TRUE(restored.ok()) << restored.error().message();
  EXPECT_TRUE(next.client->compare_copies(2, deadline_after(seconds(20))).ok());
  ASSERT_TRUE(one_step(*next.client, next.plan, 0, 2).ok());
  EXPECT_EQ(all_results(*next.client, plan.floats), computed_alone(plan, 3));
}

TEST(Server, GivesItsSlicesToMoreServersAndToFewer) {
  const Plan plan = plan_of(30'000, 5, 1, 1);
  TestServers running(3);
  const auto& all = running.endpoints();
  {
    Alone first(running, plan, {all[0], all[1]});
    first.parameters = first_parameters(plan);
    const Arrays state{first.parameters, first.momentum};
    ASSERT_TRUE(first.client->load(0, state, deadline_after(seconds(20))).ok());
    ASSERT_TRUE(one_step(*first.client, plan, 0, 0).ok());
  }
  {
    Alone more(running, later(plan, 2), all);
    ASSERT_TRUE(more.restore(1).ok());
    ASSERT_TRUE(one_step(*more.client, plan, 0, 1).ok());
  }
  Alone fewer(running, later(plan, 3), {all[1]}, {all[0], all[2]});
  ASSERT_TRUE(fewer.restore(2).ok());
  ASSERT_TRUE(one_step(*fewer.client, plan, 0, 2).ok());
  EXPECT_EQ(all_results(*fewer.client, plan.floats), computed_alone(plan, 3));
}

TEST(Server, KeepsWhatItGaveAwayUntilAStepIsMade) {
  const Plan plan = plan_of(30'000, 5, 1, 1);
  TestServers running(2);
  const auto& all = running.endpoints();
  ASSERT_TRUE(Alone(running, plan, {all[0]}).load(1).ok());
  ASSERT_TRUE(Alone(running, later(plan, 2), all).restore(0).ok());
  EXPECT_TRUE(Alone(running, later(plan, 3), {all[0]}).client->all_have(0));
  {
    Alone both(running, later(plan, 4), all);
    ASSERT_TRUE(both.client->all_have(0));
    ASSERT_TRUE(both.client->use(0, deadline_after(seconds(20))).ok());
    ASSERT_TRUE(one_step(*both.client, plan, 0, 0).ok());
  }
  EXPECT_FALSE(Alone(running, later(plan, 5), {all[0]}).client->can_fetch(0));
}

TEST(Server, DifferentCopiesAreFound) {
  Plan plan = plan_of(30'000, 5, 1, 1);
  TestServers running(2);
  const auto& all = running.endpoints();
  ASSERT_TRUE(Alone(running, plan, {all[0], all[1]}).load(1).ok());
  ASSERT_TRUE(Alone(running, later(plan, 2), {all[1], all[0]}).load(2).ok());
  plan.replicas = 2;
  Alone both(running, later(plan, 3), all);
  ASSERT_TRUE(both.client->all_have(0));
  ASSERT_TRUE(both.client->use(0, deadline_after(seconds(20))).ok());
  const Status compared = both.client->compare_copies(0, deadline_after(seconds(20)));
  ASSERT_FALSE(compared.ok());
  EXPECT_EQ(compared.error().code(), Code::kCorrupt);
  EXPECT_NE(compared.error().message().find("slice 0"), std::string::npos)
      << compared.error().message();
}

}  // namespace
}  // namespace tandem::ps
