#include "cluster/master.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/file.h"
#include "cluster/journal.h"
#include "cluster/master_actions.h"
#include "cluster/master_nodes.h"
#include "cluster/master_state.h"
#include "cluster/master_views.h"
#include "cluster/orders.h"
#include "cluster/worker_news.h"

namespace tandem::cluster {
namespace {

using Json = nlohmann::json;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

class Master::Impl {
 public:
  Impl(net::Loop& loop, MasterConfig config) : state_(loop, std::move(config)) {}
  // What they tell goes to members that are gone before them.
  ~Impl() { state_.peers.reset(); }

  Status begin() {
    TANDEM_TRY(tandem::create_directories(state_.config.runs));
    TANDEM_ASSIGN(lock_, lock_journal(state_.config.runs));
    TANDEM_ASSIGN(const std::vector<Accepted> accepted, read_accepted(state_.config.runs));
    const MasterConfig& config = state_.config;
    TANDEM_ASSIGN(state_.peers, Peers::create(state_.loop, config.listen, config.security,
                                              config.net_limits, config.version, nodes_.handler()));
    for (const Accepted& each : accepted) take_up(each);
    return {};
  }

  std::uint16_t port() const { return state_.peers->port(); }

  Result<Json> submit(JobSubmission submission) {
    TANDEM_ASSIGN(Accepted accepted,
                  accept(state_.config.runs, submission.parsed.job.name, submission.job_text,
                         submission.base_directory, submission.priority));
    TANDEM_ASSIGN(RunDirectory directory, RunDirectory::open(accepted.directory));
    MasterJob& job = add(request_of(std::move(submission.parsed), std::move(submission.job_text),
                                    submission.base_directory),
                         std::move(directory), std::move(accepted));
    const std::int64_t workers = job.request().parsed.job.cluster.workers;
    state_.config.publish({{"job", job.name()},
                           {"kind", "accepted"},
                           {"detail", fmt::format("{} workers", workers)}});
    queue(job);
    return job.to_json(state_.coordinator);
  }

  Result<Json> cancel(const std::string& id) {
    TANDEM_ASSIGN(MasterJob * job, find_unended(id));
    if (job->is_checking()) {
      state_.search.forget(job->id());
      job->end_check(std::nullopt);
    } else {
      // Whatever becomes of this master, the next one does not take it up again.
      const Status noted = job->note_cancel();
      if (!noted.ok()) state_.config.log(noted.error().message());
      actions_.apply(state_.coordinator.cancel(job->id(), now()));
    }
    return job->to_json(state_.coordinator);
  }

  Result<Json> resize(const std::string& id, const Resizing& wanted) {
    TANDEM_ASSIGN(MasterJob * job, find_unended(id));
    TANDEM_TRY(check_resizing(id, job->request().parsed.job, wanted));
    Accepted accepted = accepted_.at(job->id());
    if (wanted.workers) accepted.workers = wanted.workers;
    if (wanted.servers) accepted.servers = wanted.servers;
    TANDEM_TRY(write_accepted(accepted));
    accepted_[job->id()] = std::move(accepted);
    if (wanted.workers) {
      job->set_asked(*wanted.workers);
      actions_.apply(
          state_.coordinator.resize(job->id(), static_cast<int>(*wanted.workers), now()));
    }
    if (wanted.servers)
      actions_.apply(
          state_.coordinator.resize_servers(job->id(), static_cast<int>(*wanted.servers), now()));
    return job->to_json(state_.coordinator);
  }

  void resume(const std::string& id, std::optional<std::int64_t> step, const Answer& answer) {
    const auto job = find(id);
    if (!job.ok()) return answer(job.error());
    if (const JobState state = (*job)->state(); !cluster::has_ended(state)) {
      return answer(Error(Code::kInvalidArgument,
                          fmt::format("{} is {}; cancel it first", id, to_string(state))));
    }
    const auto look = [step](const RunDirectory& run) { return point_or_start(run, step); };
    check(**job, look, answer);
  }

  Json jobs() const {
    Json list = Json::array();
    for (const auto& [id, job] : state_.jobs) list.push_back(job->to_json(state_.coordinator));
    return {{"jobs", std::move(list)}};
  }
  Result<Json> job(const std::string& id) const {
    TANDEM_ASSIGN(const MasterJob* job, find(id));
    return job->to_json(state_.coordinator);
  }
  Result<MasterJob*> find(const std::string& id) const {
    for (const auto& [number, job] : state_.jobs) {
      if (job->name() == id) return job.get();
    }
    return Error(Code::kNotFound,
                 fmt::format("there is no job `{}`; `tandem jobs` lists them", id));
  }

  Json nodes() const { return nodes_json(*state_.peers, state_.coordinator); }
  std::string prometheus() const {
    ClusterFacts facts = facts_of(*state_.peers, state_.coordinator, state_.jobs);
    facts.workers_lost = state_.workers_lost;
    return to_prometheus(facts);
  }

  void shut_down(std::function<void()> done) {
    state_.shutting_down = true;
    done_ = std::move(done);
    for (const auto& [id, job] : state_.jobs) {
      for (const int worker : state_.coordinator.workers_of(id)) {
        if (const auto node = state_.coordinator.node_of(id, worker))
          state_.peers->send(*node, order_to_end(id, worker, Order::kTerminate));
      }
    }
    // Nodes end workers that fall silent, and are lost themselves when they do.
    const auto patience = state_.config.worker_limits.saving + state_.config.worker_limits.grace;
    give_up_ = state_.loop.after(patience, [this] { end_shut_down(); });
    look_whether_done();
  }

 private:
  Result<MasterJob*> find_unended(const std::string& id) const {
    TANDEM_ASSIGN(MasterJob * job, find(id));
    if (!cluster::has_ended(job->state())) return job;
    return Error(Code::kInvalidArgument,
                 fmt::format("{} has ended already: {}", id, to_string(job->state())));
  }

  RunRequest request_of(job::ParsedJob parsed, std::string text, std::filesystem::path base) const {
    RunRequest request;
    request.parsed = std::move(parsed);
    request.job_text = std::move(text);
    request.base_directory = std::move(base);
    request.limits = state_.config.worker_limits;
    request.version = state_.config.version;
    return request;
  }

  MasterJob& add(RunRequest request, RunDirectory directory, Accepted accepted) {
    const JobId id = next_job_++;
    auto job = std::make_unique<MasterJob>(id, std::move(request), std::move(directory),
                                           accepted.priority, state_.config.publish);
    if (accepted.workers) job->set_asked(*accepted.workers);
    accepted_[id] = std::move(accepted);
    return *(state_.jobs[id] = std::move(job));
  }

  void queue(MasterJob& job) {
    JobPlan plan = plan_of(job.request().parsed.job, job.priority());
    if (const auto& resized = accepted_.at(job.id()).workers)
      plan.team.wanted = plan.most = static_cast<int>(*resized);
    if (const auto& resized = accepted_.at(job.id()).servers)
      plan.team.servers = static_cast<int>(*resized);
    actions_.apply(state_.coordinator.submit(job.id(), plan, now()));
  }

  // A job of an earlier master.
  void take_up(const Accepted& accepted) {
    auto directory = RunDirectory::open(accepted.directory);
    if (!directory.ok()) return state_.config.log(directory.error().message());
    const auto text = read_file(directory->job(), job::kMostFileBytes);
    if (!text.ok()) return state_.config.log(text.error().message());
    auto parsed = job::parse_located(*text, directory->job().string(), {});
    if (!parsed.ok()) return state_.config.log(parsed.error().message());
    MasterJob& job =
        add(request_of(std::move(*parsed), *text, accepted.base_directory), *directory, accepted);
    if (!accepted.status.empty())
      return job.end_as(end_named(accepted.status), accepted.reason, accepted.progress);
    check(job, newest_or_start, [this, name = job.name()](const Result<Json>& taken) {
      if (!taken.ok()) state_.config.log(fmt::format("{}: {}", name, taken.error().message()));
    });
  }

  // Looks for the checkpoint from which the job shall go on, and queues it.
  void check(MasterJob& job, CheckpointSearch::Look look, Answer answer) {
    job.check();
    state_.search.begin(job.id(), job.directory(), std::move(look),
                        [this, &job, answer = std::move(answer)](const Result<ResumePoint>& point) {
                          answer(end_check(job, point));
                        });
  }

  Result<Json> end_check(MasterJob& job, const Result<ResumePoint>& point) {
    if (state_.shutting_down) return Error(Code::kCancelled, "the master is ending");
    if (!point.ok() && point.error().code() == Code::kCancelled) return point.error();
    Status status = point.ok() ? Status() : Status(point.error());
    if (status.ok() && job.had_ended()) status = job.go_back(*point);
    if (!status.ok()) {
      job.end_check(status.error());
      return status.error();
    }
    state_.config.log(fmt::format("takes up {} again, after step {}", job.name(), point->step));
    job.queue_again(*point);
    queue(job);
    return job.to_json(state_.coordinator);
  }

  void look_whether_done() {
    if (!state_.shutting_down || !done_) return;
    for (const auto& [id, job] : state_.jobs) {
      if (!state_.coordinator.workers_of(id).empty()) return;
    }
    end_shut_down();
  }

  void end_shut_down() {
    give_up_.cancel();
    if (done_) std::exchange(done_, nullptr)();
  }

  Descriptor lock_;
  std::map<JobId, Accepted> accepted_;  // As the journal has them.
  JobId next_job_ = 1;
  std::function<void()> done_;
  net::Timer give_up_;
  MasterState state_;
  MasterActions actions_{state_};
  MasterNodes nodes_{state_, actions_, [this] { look_whether_done(); }};
};

Result<std::unique_ptr<Master>> Master::create(net::Loop& loop, MasterConfig config) {
  auto impl = std::make_unique<Impl>(loop, std::move(config));
  TANDEM_TRY(impl->begin());
  return std::unique_ptr<Master>(new Master(std::move(impl)));
}

Master::Master(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Master::~Master() = default;

std::uint16_t Master::port() const {
  return impl_->port();
}
Result<Json> Master::submit(JobSubmission submission) {
  return impl_->submit(std::move(submission));
}
Result<Json> Master::cancel(const std::string& id) {
  return impl_->cancel(id);
}
void Master::resume(const std::string& id, std::optional<std::int64_t> step, Answer answer) {
  impl_->resume(id, step, answer);
}
Result<Json> Master::resize(const std::string& id, const Resizing& wanted) {
  return impl_->resize(id, wanted);
}
Json Master::jobs() const {
  return impl_->jobs();
}
Result<Json> Master::job(const std::string& id) const {
  return impl_->job(id);
}
Json Master::nodes() const {
  return impl_->nodes();
}
Result<std::filesystem::path> Master::directory_of(const std::string& id) const {
  TANDEM_ASSIGN(const MasterJob* job, impl_->find(id));
  return job->directory().path();
}
Result<bool> Master::has_ended(const std::string& id) const {
  TANDEM_ASSIGN(const MasterJob* job, impl_->find(id));
  return cluster::has_ended(job->state());
}
std::string Master::prometheus() const {
  return impl_->prometheus();
}
void Master::shut_down(std::function<void()> done) {
  impl_->shut_down(std::move(done));
}

}  // namespace tandem::cluster
