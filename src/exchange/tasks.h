// The exchange of workers that do not wait for each other: each gets tasks, a lane of a step at a
// time, pushes what it computed to the parameter servers, and goes on with the parameters that
// these have by then. A stretch of steps is computed so; before and after it all workers stand at
// the same step, and servers and workers have the same parameters.
//
// After an error the stretch is as far as it came, the servers remember how far, and the next group
// goes on with it. Belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "exchange/exchange.h"
#include "exchange/server_link.h"
#include "exchange/servers.h"
#include "optim/optimizer.h"
#include "ps/client.h"

namespace tandem::exchange {

class Tasks {
 public:
  // Every worker of the group calls this with the same plan and configuration. All must outlive it.
  // The plan's vector holds parameters only.
  static Result<std::unique_ptr<Tasks>> create(const Plan& plan, const ServersConfig& config,
                                               collective::Group& group,
                                               std::span<float> parameters,
                                               optim::Optimizer& optimizer, Deadline deadline);

  // Every worker calls this and end_stretch() together. kDiverged as finish(). The stretch's steps
  // are computed, or fewer. The parameters become the servers'.
  Status begin_stretch(const ps::StretchPlan& stretch, Deadline deadline);
  // After next() told of the end: the parameters become those after the last step, for good.
  // kDiverged when one is no longer finite.
  Status take_last(Deadline deadline) { return pull(deadline); }
  // Then, all together: the servers stand there, too. `taken` is how take_last() went.
  Status end_stretch(const Status& taken, std::int64_t step, Deadline deadline);

  // Whether this worker keeps up the rows of tables only as far as it names them: then, before
  // begin(), those of a task become what they are by now.
  bool has_rows() const { return link_.has_rows(); }
  Status pull_rows(std::int64_t task, const RowLists& rows, Deadline deadline) {
    return client_.pull_rows(task, std::span(&rows, 1), parameters_, deadline);
  }
  // As those of Exchange, after a stretch.
  Status complete(std::int64_t steps_done, Deadline deadline) {
    return link_.complete(steps_done, parameters_, deadline);
  }
  Status read_rows(std::int64_t steps_done, const RowLists& rows, Deadline deadline) {
    return client_.read_rows(steps_done * lanes_, rows, parameters_, deadline);
  }
  Status read_tables(std::int64_t steps_done, const RecordSink& sink, Deadline deadline) {
    return link_.read_tables(steps_done, sink, deadline);
  }
  Result<std::vector<TableSize>> table_sizes(Deadline deadline) {
    return link_.table_sizes(deadline);
  }

  // Tells what was done, and waits for what is to be done. The parameters are new enough for it.
  Result<ps::TaskGiven> next(const ps::TaskDone& done, Deadline deadline);
  // A task: begin(), gradient() is written and told of by ready(), then finish(), after which the
  // parameters are what the servers have.
  void begin(std::int64_t task, double lr, std::int64_t samples) {
    client_.begin(task, lr, static_cast<std::uint64_t>(samples));
  }
  std::span<float> gradient() { return client_.partial(0); }
  Status ready(std::size_t buckets) { return client_.ready(buckets); }
  // kDiverged when a parameter is no longer finite.
  Status finish(Deadline deadline);

  Status fetch_state(std::int64_t steps_done, Deadline deadline) {
    return link_.fetch_state(steps_done, deadline);
  }
  collective::Traffic traffic() const { return client_.traffic(); }

 private:
  Tasks(ServerLink link, collective::Group& group, std::span<float> parameters, std::int64_t lanes)
      : link_(std::move(link)),
        client_(link_.client()),
        group_(group),
        parameters_(parameters),
        lanes_(lanes) {}

  Status pull(Deadline deadline);
  Status take_results();

  ServerLink link_;
  ps::Client& client_;
  collective::Group& group_;
  const std::span<float> parameters_;
  const std::int64_t lanes_;
};

}  // namespace tandem::exchange
