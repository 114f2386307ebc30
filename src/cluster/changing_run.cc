#include "cluster/changing_run.h"

#include <chrono>
#include <memory>
#include <utility>

#include "cluster/coordinator.h"
#include "cluster/job_run.h"
#include "cluster/meeting.h"
#include "cluster/outcome.h"
#include "cluster/words.h"
#include "cluster/worker_command.h"
#include "cluster/worker_news.h"
#include "collective/store.h"

namespace tandem::cluster {
namespace {

constexpr JobId kJob = 1;
constexpr NodeId kHere = 1;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

class ChangingRun final : public NodeListener {
 public:
  ChangingRun(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
              RunView& view, Recorder& recorder, Report& report)
      : request_(request),
        directory_(directory),
        view_(view),
        report_(report),
        job_(request, directory, recorder, view),
        node_(limits_of(request), signals, *this) {}

  Status run() {
    const job::Cluster& cluster = request_.parsed.job.cluster;
    TANDEM_ASSIGN(token_, random_token());
    TANDEM_ASSIGN(store_, collective::StoreServer::start("127.0.0.1", 0, token_));
    const int workers = static_cast<int>(cluster.workers);
    apply(coordinator_.node_up(kHere, workers, now()));
    apply(coordinator_.submit(kJob, plan_of(request_.parsed.job, 0), now()));
    while (!over_ && status_.ok()) {
      if (node_.turn(coordinator_.deadline()) == Node::Signal::kStop) cancel();
      apply(coordinator_.tick(now()));
      view_.tick();
    }
    return std::move(status_);
  }

  Status message(int worker, const wire::WorkerMessage& message) override {
    if (is_server(worker)) {
      job_.serving(server_of(worker), "127.0.0.1", message.serving().port());
    } else {
      job_.message(worker, message);
    }
    TANDEM_ASSIGN(const JobActions actions, tell(coordinator_, kJob, worker, message, now()));
    apply(actions);
    return {};
  }
  Status line(int worker, Stream stream, std::string_view text) override {
    if (is_server(worker)) {
      job_.server_line(server_of(worker), text);
    } else {
      job_.line(worker, stream, text);
    }
    return {};
  }
  void ended(int worker, WorkerEnd end) override {
    if (is_server(worker)) {
      const std::string how = describe_server_end(end);
      return apply(coordinator_.server_ended(kJob, server_of(worker), how, now()));
    }
    const Ending ending = job_.ended(worker, end, coordinator_.team(kJob));
    apply(coordinator_.ended(kJob, worker, ending, now()));
  }
  void resumed() override { view_.resumed(); }

 private:
  void cancel() {
    view_.stopping(cancelled_ ? Order::kKill : Order::kTerminate, Cause::kCancelled);
    cancelled_ = true;
    apply(coordinator_.cancel(kJob, now()));
  }

  void apply(const JobActions& actions) {
    for (const JobAction& action : actions) {
      Status status = std::visit([&](const auto& what) { return carry_out(what); }, action.action);
      if (!status.ok() && status_.ok()) status_ = std::move(status);
    }
  }

  Status carry_out(const StartWorker& start) {
    job_.add_worker(start.worker);
    Command command = worker_command(request_, directory_);
    command.arguments.insert(command.arguments.end(),
                             {"--placed-by-node", "--number", std::to_string(start.worker)});
    // Not an argument, which every user of the machine could read.
    command.environment.push_back("TANDEM_TOKEN=" + token_);
    return node_.start(start.worker, command);
  }
  Status carry_out(const PlaceWorker& place) {
    TANDEM_ASSIGN(const wire::WorkerMessage message,
                  job_.place(place, {"127.0.0.1", store_->port()}));
    node_.tell(place.worker, message);
    return {};
  }
  Status carry_out(const AnswerWorker& answer) {
    node_.tell(answer.worker, to_wire(answer));
    return {};
  }
  Status carry_out(const EndWorker& end) {
    if (end.order == Order::kKill) {
      node_.kill(end.worker);
    } else {
      node_.stop(end.worker, cancelled_ ? Cause::kCancelled : Cause::kNone);
    }
    return {};
  }
  Status carry_out(const StartServer& start) {
    Command command = server_command(request_, "127.0.0.1");
    command.environment.push_back("TANDEM_TOKEN=" + token_);
    return node_.start(process_of_server(start.server), command, server_limits(request_));
  }
  Status carry_out(const EndServer& end) {
    node_.kill(process_of_server(end.server));
    return {};
  }
  Status carry_out(const TellUser& news) {
    job_.tell(news);
    return {};
  }
  Status carry_out(const EndJob& end) {
    over_ = true;
    job_.finish(end, report_);
    return {};
  }

  const RunRequest& request_;
  const RunDirectory& directory_;
  RunView& view_;
  Report& report_;
  JobRun job_;
  Coordinator coordinator_;
  std::string token_;
  std::unique_ptr<collective::StoreServer> store_;
  bool cancelled_ = false, over_ = false;
  Status status_;  // The first thing that could not be done.
  Node node_;
};

}  // namespace

bool may_change(const RunRequest& request) {
  const job::Job& job = request.parsed.job;
  if (request.place.has_value()) return false;
  if (job.has_servers()) return true;  // Only then there are some.
  return request.rehearsal == Rehearsal::kNo && job.cluster.engine != "mpi" &&
         job.cluster.max_restarts > 0;
}

Status run_changing(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
                    RunView& view, Recorder& recorder, Report& report) {
  return ChangingRun(request, directory, signals, view, recorder, report).run();
}

}  // namespace tandem::cluster
