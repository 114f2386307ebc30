// The exchange through parameter servers, in step: workers push their partial sums, servers add
// them in the lanes' order, update and give everybody the new parameters. The same bits as an
// all-reduce.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "exchange/exchange.h"
#include "net/address.h"
#include "net/tls.h"
#include "optim/optimizer.h"
#include "ps/arrivals.h"
#include "ps/client.h"

namespace tandem::exchange {

struct ServersConfig {
  std::vector<net::Endpoint> servers;
  std::vector<net::Endpoint> former = {};  // They leave, and may have what the others need.
  std::size_t replicas = 1;                // Servers that hold each slice.
  std::string token;
  std::shared_ptr<const net::Tls> tls = nullptr;  // Null: in the clear.
  std::string transport = "auto";                 // auto: shared memory where it can be; tcp.
  std::uint64_t generation = 0;                   // Of the workers; larger than any before.
  // Where the training stands. The servers must have that state, or this worker its optimizer's
  // part of it (`optimizer_steps`) to give them.
  std::int64_t steps_done = 0;
  std::int64_t optimizer_steps = -1;
  // After which step this worker's parameters are whole; matters where a plan has tables, or
  // workers do not wait for each other.
  std::int64_t parameters_steps = -1;
  // Where tables are kept by key: what they hold after `tables_steps` steps, for servers that do
  // not have it. -1: it is not known here.
  ps::RecordSource tables = {};
  std::int64_t tables_steps = -1;
  // Workers do not wait for each other (exchange/tasks.h); nothing: in step.
  std::optional<ps::AsyncRule> async = {};
};

// Every worker of the group calls this with the same plan and steps_done. `parameters` are those
// after steps_done steps, but for rows of tables. kNotFound when nobody has the optimizer's state,
// or rows, any more; kCorrupt when copies of a slice differ.
Result<std::unique_ptr<Exchange>> make_servers(const Plan& plan, const ServersConfig& config,
                                               collective::Group& group,
                                               std::span<float> parameters,
                                               optim::Optimizer& optimizer, Deadline deadline);

}  // namespace tandem::exchange
