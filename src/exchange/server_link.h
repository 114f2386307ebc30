// What every exchange through parameter servers does: connects to them, sees to it that they have
// the state from which training goes on, and takes state back from them. Belongs to one thread.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "exchange/exchange.h"
#include "exchange/servers.h"
#include "optim/optimizer.h"
#include "ps/client.h"

namespace tandem::exchange {

// Tells the group how it went here, and hears how it went with the others. Who fails must not just
// leave: workers that wait for it inside the group do not see what became of the servers.
Status share_outcome(const Status& own, collective::Group& group, Deadline deadline);

class ServerLink {
 public:
  // Every worker of the group calls this with the same plan; the first sees to it that the servers
  // have the state, while the others wait. The optimizer must outlive it. As make_servers().
  static Result<ServerLink> connect(const Plan& plan, const ServersConfig& config,
                                    collective::Group& group, std::span<float> parameters,
                                    optim::Optimizer& optimizer, Deadline deadline);

  ps::Client& client() { return *client_; }
  const ps::Client& client() const { return *client_; }

  // As Exchange::fetch_state().
  Status fetch_state(std::int64_t steps_done, Deadline deadline);
  // Whether rows of tables travel by themselves, and whether servers alone have them.
  bool has_rows() const { return has_rows_ || is_sparse_; }
  bool is_sparse() const { return is_sparse_; }
  // As those of Exchange.
  Status complete(std::int64_t steps_done, std::span<float> parameters, Deadline deadline);
  Status read_tables(std::int64_t steps_done, const RecordSink& sink, Deadline deadline);
  Result<std::vector<TableSize>> table_sizes(Deadline deadline);
  // Copies results.
  void copy(Bucket at, std::span<float> to) const;
  // All of that part that are trained, into the parameters.
  void copy_trained(const Bucket& part, std::span<float> parameters) const;

 private:
  ServerLink(std::unique_ptr<ps::Client> client, std::vector<Bucket> trained,
             optim::Optimizer& optimizer)
      : client_(std::move(client)), trained_(std::move(trained)), optimizer_(&optimizer) {}

  Status prepare(const ServersConfig& config, std::span<float> parameters, Deadline deadline);
  ps::Arrays arrays(std::span<float> parameters);

  std::unique_ptr<ps::Client> client_;
  std::vector<Bucket> trained_;  // In pieces.
  bool has_rows_ = false;        // Some rows of this vector travel by themselves,
  bool is_sparse_ = false;       // or those that servers alone have.
  std::int64_t whole_ = -1;      // After which step all rows were fetched.
  optim::Optimizer* optimizer_;
};

}  // namespace tandem::exchange
