#include "exchange/servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ps/client.h"

namespace tandem::exchange {
namespace {

ps::Plan plan_for(const Plan& plan, std::uint64_t generation, int workers) {
  ps::Plan made;
  made.generation = generation;
  made.floats = plan.reduce.floats;
  made.parameters = plan.parameters;
  made.buckets = plan.reduce.buckets;
  made.trainable = plan.trainable;
  made.optimizer = plan.optimizer;
  made.clip = plan.clip;
  made.lanes = plan.reduce.lanes;
  made.ends = collective::ends_of(plan.reduce, workers);
  return made;
}

class Servers final : public Exchange {
 public:
  Servers(const Plan& plan, std::unique_ptr<ps::Client> client, optim::Optimizer& optimizer)
      : plan_(plan), client_(std::move(client)), optimizer_(optimizer) {}

  // The first worker sees to it that the servers have the state, while the others wait.
  Status prepare(const ServersConfig& config, std::span<float> parameters, Deadline deadline) {
    const std::int64_t steps = config.steps_done;
    if (client_->all_have(steps)) return client_->use(steps, deadline);
    if (client_->can_fetch(steps)) {
      TANDEM_TRY(client_->fetch(steps, arrays(parameters), deadline));
    } else if (config.optimizer_steps != steps && !optimizer_.state().empty()) {
      return Error(
          Code::kNotFound,
          fmt::format("no server has the optimizer's state after step {} any more; go back "
                      "to a checkpoint with `tandem resume`",
                      steps));
    }
    return client_->load(steps, arrays(parameters), deadline);
  }

  std::size_t partials() const override { return client_->partials(); }
  std::span<float> partial(std::size_t index) override { return client_->partial(index); }

  Status begin(std::int64_t steps_done, double lr, Deadline) override {
    client_->begin(steps_done, lr);
    return {};
  }
  Status ready(std::size_t count) override { return client_->ready(count); }
  Status gather(Deadline deadline) override { return client_->finish(deadline); }

  void take(Bucket at, std::span<float> to) override {
    // Servers keep the sums of gradients to themselves.
    if (const std::size_t end = std::min(at.end, plan_.parameters); at.begin < end) {
      const std::span<const float> own = client_->partial(0).subspan(at.begin, end - at.begin);
      std::copy(own.begin(), own.end(), to.begin());
      to = to.subspan(own.size());
      at.begin = end;
    }
    copy(at, to);
  }

  Update update(std::span<float> parameters) override {
    for (const optim::Range& range : plan_.trainable) {
      const Bucket at{static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end)};
      copy(at, parameters.subspan(at.begin, at.end - at.begin));
    }
    return {client_->norm(),
            client_->is_finite() ? optim::Updated::kFinite : optim::Updated::kNotFinite};
  }

  Status fetch_state(std::int64_t steps_done, Deadline deadline) override {
    TANDEM_TRY(client_->fetch(steps_done, arrays({}), deadline));
    optimizer_.set_steps(steps_done);
    return {};
  }

  collective::Traffic traffic() const override { return client_->traffic(); }

 private:
  // The parameters, then the optimizer's state.
  ps::Arrays arrays(std::span<float> parameters) {
    ps::Arrays all{parameters};
    for (const optim::StateTensor& tensor : optimizer_.state()) all.push_back(tensor.values);
    return all;
  }

  void copy(Bucket at, std::span<float> to) const {
    while (at.begin < at.end) {
      const std::span<const float> piece = client_->result(at);
      std::copy(piece.begin(), piece.end(), to.begin());
      to = to.subspan(piece.size());
      at.begin += piece.size();
    }
  }

  const Plan plan_;
  const std::unique_ptr<ps::Client> client_;
  optim::Optimizer& optimizer_;
};

}  // namespace

Result<std::unique_ptr<Exchange>> make_servers(const Plan& plan, const ServersConfig& config,
                                               collective::Group& group,
                                               std::span<float> parameters,
                                               optim::Optimizer& optimizer, Deadline deadline) {
  TANDEM_ASSIGN(auto client, ps::Client::connect(
                                 {.servers = config.servers,
                                  .token = config.token,
                                  .plan = plan_for(plan, config.generation, group.size()),
                                  .worker = group.rank(),
                                  .name = group.membership().name(group.rank()),
                                  .sharing = config.transport == "tcp" ? ps::Sharing::kNever
                                                                       : ps::Sharing::kWhereItCan},
                                 deadline));
  auto servers = std::make_unique<Servers>(plan, std::move(client), optimizer);
  if (group.rank() == 0) TANDEM_TRY(servers->prepare(config, parameters, deadline));
  TANDEM_TRY(group.barrier(deadline));
  return std::unique_ptr<Exchange>(std::move(servers));
}

}  // namespace tandem::exchange
