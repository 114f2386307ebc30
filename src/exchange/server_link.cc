#include "exchange/server_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ps/scope.h"

namespace tandem::exchange {
namespace {

// What the others wait for while the first worker moves whole tables, which may be large. That
// fails by itself when a server falls silent.
constexpr std::chrono::minutes kMoving{30};

ps::Plan plan_for(const Plan& plan, const ServersConfig& config, int workers) {
  ps::Plan made;
  made.generation = config.generation;
  made.replicas = std::min(config.replicas, config.servers.size());
  made.floats = plan.reduce.floats;
  made.parameters = plan.parameters;
  made.buckets = plan.reduce.buckets;
  made.trainable = plan.trainable;
  made.optimizer = plan.optimizer;
  made.clip = plan.clip;
  made.lanes = plan.reduce.lanes;
  made.pull = plan.pull;
  if (plan.pull == Pull::kPartial) made.tables = plan.tables;
  made.sparse = plan.sparse;
  made.admit_after = plan.admit_after;
  made.evict_after = plan.evict_after;
  made.ends = collective::ends_of(plan.reduce, workers);
  made.async = config.async;
  // Workers that do not wait for each other clip what they push.
  if (made.async) made.clip.norm = 0;
  return made;
}

}  // namespace

Status share_outcome(const Status& own, collective::Group& group, Deadline deadline) {
  const auto mine = static_cast<std::byte>(own.ok() ? 0 : 1);
  std::vector<std::byte> all(static_cast<std::size_t>(group.size()), mine);
  const Status shared = group.all_gather(std::span(&mine, 1), all, deadline);
  TANDEM_TRY(own);
  TANDEM_TRY(shared);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == std::byte{0}) continue;
    return Error(Code::kPeerLost, fmt::format("{} did not come to terms with the parameter servers",
                                              group.membership().name(static_cast<int>(rank))));
  }
  return {};
}

Result<ServerLink> ServerLink::connect(const Plan& plan, const ServersConfig& config,
                                       collective::Group& group, std::span<float> parameters,
                                       optim::Optimizer& optimizer, Deadline deadline) {
  const ps::Plan agreed = plan_for(plan, config, group.size());
  auto client = ps::Client::connect(
      {.servers = config.servers,
       .former = group.rank() == 0 ? config.former : std::vector<net::Endpoint>(),
       .token = config.token,
       .tls = config.tls,
       .plan = agreed,
       .worker = group.rank(),
       .name = group.membership().name(group.rank()),
       .sharing = config.transport == "tcp" ? ps::Sharing::kNever : ps::Sharing::kWhereItCan},
      deadline);
  Status connected = client.ok() ? Status() : client.error();
  // A name that is not known is nothing that going back would cure.
  if (!connected.ok() && connected.error().code() == Code::kNotFound)
    connected = Error(Code::kInvalidArgument, connected.error().message());
  TANDEM_TRY(share_outcome(connected, group, deadline));
  ServerLink link(std::move(client).value(), ps::trained_in_pieces(agreed), optimizer);
  link.has_rows_ = !agreed.tables.empty() && !agreed.is_sparse();
  link.is_sparse_ = agreed.is_sparse();
  // From when all have come.
  if (link.is_sparse_) deadline = collective::deadline_after(plan.reduce.patience);
  Status prepared;
  if (group.rank() == 0) prepared = link.prepare(config, parameters, deadline);
  TANDEM_TRY(share_outcome(prepared, group, link.is_sparse_ ? deadline + kMoving : deadline));
  return link;
}

Status ServerLink::prepare(const ServersConfig& config, std::span<float> parameters,
                           Deadline deadline) {
  const std::int64_t steps = config.steps_done;
  const auto patience = deadline - std::chrono::steady_clock::now();
  if (client_->all_have(steps)) {
    TANDEM_TRY(client_->use(steps, deadline));
  } else if (client_->can_fetch(steps)) {
    TANDEM_TRY(client_->restore(steps, arrays(parameters), deadline));
  } else if ((config.optimizer_steps == steps || optimizer_->state().empty()) &&
             (config.parameters_steps == steps || !(has_rows_ || config.async)) &&
             (config.tables_steps == steps || !is_sparse_)) {
    TANDEM_TRY(client_->load(steps, arrays(parameters), deadline, config.tables));
  } else {
    return Error(
        Code::kNotFound,
        fmt::format("no server has {} after step {} any more",
                    is_sparse_ ? "its part of the tables" : "the optimizer's state", steps));
  }
  // Tables may have taken longer to move than that.
  if (is_sparse_) deadline = std::chrono::steady_clock::now() + patience;
  return client_->compare_copies(steps, deadline);
}

// The parameters, then the optimizer's state.
ps::Arrays ServerLink::arrays(std::span<float> parameters) {
  ps::Arrays all{parameters};
  for (const optim::StateTensor& tensor : optimizer_->state()) all.push_back(tensor.values);
  return all;
}

Status ServerLink::fetch_state(std::int64_t steps_done, Deadline deadline) {
  TANDEM_TRY(client_->compare_copies(steps_done, deadline));
  TANDEM_TRY(client_->fetch(steps_done, arrays({}), deadline));
  optimizer_->set_steps(steps_done);
  return {};
}

Status ServerLink::complete(std::int64_t steps_done, std::span<float> parameters,
                            Deadline deadline) {
  if (!has_rows_ || whole_ == steps_done) return {};
  TANDEM_TRY(client_->fetch_tables(steps_done, parameters, deadline));
  whole_ = steps_done;
  return {};
}

Status ServerLink::read_tables(std::int64_t steps_done, const RecordSink& sink, Deadline deadline) {
  return is_sparse_ ? client_->read_tables(steps_done, sink, deadline) : Status();
}

Result<std::vector<TableSize>> ServerLink::table_sizes(Deadline deadline) {
  if (!is_sparse_) return std::vector<TableSize>();
  return client_->table_sizes(deadline);
}

void ServerLink::copy(Bucket at, std::span<float> to) const {
  while (at.begin < at.end) {
    const std::span<const float> piece = client_->result(at);
    std::copy(piece.begin(), piece.end(), to.begin());
    to = to.subspan(piece.size());
    at.begin += piece.size();
  }
}

void ServerLink::copy_trained(const Bucket& part, std::span<float> parameters) const {
  for (const Bucket& each : trained_) {
    const Bucket at{std::max(each.begin, part.begin), std::min(each.end, part.end)};
    if (at.begin < at.end) copy(at, parameters.subspan(at.begin, at.end - at.begin));
  }
}

}  // namespace tandem::exchange
