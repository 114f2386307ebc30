#include "cluster/master.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <utility>

#include "base/file.h"
#include "cluster/checkpoint_search.h"
#include "cluster/journal.h"
#include "cluster/master_job.h"
#include "cluster/master_views.h"
#include "cluster/node_kernels.h"
#include "cluster/orders.h"
#include "cluster/outcome.h"
#include "cluster/peers.h"
#include "cluster/remote.h"
#include "cluster/words.h"
#include "cluster/worker_news.h"

namespace tandem::cluster {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

class Master::Impl {
 public:
  Impl(net::Loop& loop, MasterConfig config) : loop_(loop), config_(std::move(config)) {}

  Status begin() {
    TANDEM_TRY(tandem::create_directories(config_.runs));
    TANDEM_ASSIGN(lock_, lock_journal(config_.runs));
    TANDEM_ASSIGN(const std::vector<Accepted> accepted, read_accepted(config_.runs));
    Peers::Handler handler;
    handler.on_node = [this](NodeId node, const wire::NodeHello& hello) { node_up(node, hello); };
    handler.on_message = [this](NodeId node, const wire::NodeMessage& message) {
      heard(node, message);
    };
    handler.on_lost = [this](NodeId node, const std::string& name, const Error& why) {
      node_lost(node, name, why);
    };
    handler.log = config_.log;
    TANDEM_ASSIGN(peers_, Peers::create(loop_, config_.listen, config_.security, config_.net_limits,
                                        config_.version, std::move(handler)));
    for (const Accepted& each : accepted) take_up(each);
    return {};
  }

  std::uint16_t port() const { return peers_->port(); }

  Result<Json> submit(JobSubmission submission) {
    TANDEM_ASSIGN(Accepted accepted,
                  accept(config_.runs, submission.parsed.job.name, submission.job_text,
                         submission.base_directory, submission.priority));
    TANDEM_ASSIGN(RunDirectory directory, RunDirectory::open(accepted.directory));
    MasterJob& job = add(request_of(std::move(submission.parsed), std::move(submission.job_text),
                                    submission.base_directory),
                         std::move(directory), std::move(accepted));
    const std::int64_t workers = job.request().parsed.job.cluster.workers;
    config_.publish({{"job", job.name()},
                     {"kind", "accepted"},
                     {"detail", fmt::format("{} workers", workers)}});
    queue(job);
    return job.to_json(coordinator_);
  }

  Result<Json> cancel(const std::string& id) {
    TANDEM_ASSIGN(MasterJob * job, find_unended(id));
    if (job->is_checking()) {
      search_.forget(job->id());
      job->end_check(std::nullopt);
    } else {
      // Whatever becomes of this master, the next one does not take it up again.
      const Status noted = job->note_cancel();
      if (!noted.ok()) config_.log(noted.error().message());
      apply(coordinator_.cancel(job->id(), now()));
    }
    return job->to_json(coordinator_);
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
      apply(coordinator_.resize(job->id(), static_cast<int>(*wanted.workers), now()));
    }
    if (wanted.servers)
      apply(coordinator_.resize_servers(job->id(), static_cast<int>(*wanted.servers), now()));
    return job->to_json(coordinator_);
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
    for (const auto& [id, job] : jobs_) list.push_back(job->to_json(coordinator_));
    return {{"jobs", std::move(list)}};
  }
  Result<Json> job(const std::string& id) const {
    TANDEM_ASSIGN(const MasterJob* job, find(id));
    return job->to_json(coordinator_);
  }
  Result<MasterJob*> find(const std::string& id) const {
    for (const auto& [number, job] : jobs_) {
      if (job->name() == id) return job.get();
    }
    return Error(Code::kNotFound,
                 fmt::format("there is no job `{}`; `tandem jobs` lists them", id));
  }

  Json nodes() const { return nodes_json(*peers_, coordinator_); }
  std::string prometheus() const {
    ClusterFacts facts = facts_of(*peers_, coordinator_, jobs_);
    facts.workers_lost = workers_lost_;
    return to_prometheus(facts);
  }

  void shut_down(std::function<void()> done) {
    shutting_down_ = true;
    done_ = std::move(done);
    for (const auto& [id, job] : jobs_) {
      for (const int worker : coordinator_.workers_of(id)) {
        if (const auto node = coordinator_.node_of(id, worker))
          peers_->send(*node, order_to_end(id, worker, Order::kTerminate));
      }
    }
    // Nodes end workers that fall silent, and are lost themselves when they do.
    const auto patience = config_.worker_limits.saving + config_.worker_limits.grace;
    give_up_ = loop_.after(patience, [this] { end_shut_down(); });
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
    request.limits = config_.worker_limits;
    request.version = config_.version;
    return request;
  }

  MasterJob& add(RunRequest request, RunDirectory directory, Accepted accepted) {
    const JobId id = next_job_++;
    auto job = std::make_unique<MasterJob>(id, std::move(request), std::move(directory),
                                           accepted.priority, config_.publish);
    if (accepted.workers) job->set_asked(*accepted.workers);
    accepted_[id] = std::move(accepted);
    return *(jobs_[id] = std::move(job));
  }

  void queue(MasterJob& job) {
    JobPlan plan = plan_of(job.request().parsed.job, job.priority());
    if (const auto& resized = accepted_.at(job.id()).workers)
      plan.team.wanted = plan.most = static_cast<int>(*resized);
    if (const auto& resized = accepted_.at(job.id()).servers)
      plan.team.servers = static_cast<int>(*resized);
    apply(coordinator_.submit(job.id(), plan, now()));
  }

  // A job of an earlier master.
  void take_up(const Accepted& accepted) {
    auto directory = RunDirectory::open(accepted.directory);
    if (!directory.ok()) return config_.log(directory.error().message());
    const auto text = read_file(directory->job(), job::kMostFileBytes);
    if (!text.ok()) return config_.log(text.error().message());
    auto parsed = job::parse_located(*text, directory->job().string(), {});
    if (!parsed.ok()) return config_.log(parsed.error().message());
    MasterJob& job =
        add(request_of(std::move(*parsed), *text, accepted.base_directory), *directory, accepted);
    if (!accepted.status.empty())
      return job.end_as(end_named(accepted.status), accepted.reason, accepted.progress);
    check(job, newest_or_start, [this, name = job.name()](const Result<Json>& taken) {
      if (!taken.ok()) config_.log(fmt::format("{}: {}", name, taken.error().message()));
    });
  }

  // Looks for the checkpoint from which the job shall go on, and queues it.
  void check(MasterJob& job, CheckpointSearch::Look look, Answer answer) {
    job.check();
    search_.begin(job.id(), job.directory(), std::move(look),
                  [this, &job, answer = std::move(answer)](const Result<ResumePoint>& point) {
                    answer(end_check(job, point));
                  });
  }

  Result<Json> end_check(MasterJob& job, const Result<ResumePoint>& point) {
    if (shutting_down_) return Error(Code::kCancelled, "the master is ending");
    if (!point.ok() && point.error().code() == Code::kCancelled) return point.error();
    Status status = point.ok() ? Status() : Status(point.error());
    if (status.ok() && job.had_ended()) status = job.go_back(*point);
    if (!status.ok()) {
      job.end_check(status.error());
      return status.error();
    }
    config_.log(fmt::format("takes up {} again, after step {}", job.name(), point->step));
    job.queue_again(*point);
    queue(job);
    return job.to_json(coordinator_);
  }

  void node_up(NodeId node, const wire::NodeHello& hello) {
    for (const auto& [id, job] : jobs_) {
      const Kernels& kernels = job->request().kernels;
      if (job->state() != JobState::kRunning || can_run(hello, kernels)) continue;
      return peers_->refuse(
          node, Error(Code::kInvalidArgument,
                      fmt::format("its processor lacks {}, which {} uses; it can join when that "
                                  "has ended",
                                  kernels.aten, job->name())));
    }
    config_.log(fmt::format("node {} joined with {} slots", hello.name(), hello.slots()));
    config_.publish({{"kind", "node_joined"}, {"node", hello.name()}, {"slots", hello.slots()}});
    apply(coordinator_.node_up(node, hello.slots(), now()));
  }

  void node_lost(NodeId node, const std::string& name, const Error& why) {
    config_.log(fmt::format("node {} is lost: {}", name, why.message()));
    config_.publish({{"kind", "node_lost"}, {"node", name}, {"detail", why.message()}});
    for (const auto& [id, job] : jobs_) {
      for (const int worker : coordinator_.workers_of(id)) {
        if (job->state() != JobState::kRunning || coordinator_.node_of(id, worker) != node)
          continue;
        job->run().forget(worker);
        if (coordinator_.team(id)->wants(worker)) ++workers_lost_;
      }
    }
    apply(coordinator_.node_down(
        node, fmt::format("was lost with its node {}: {}", name, why.message()), now()));
    look_whether_done();
  }

  // The job of a worker that really runs on this node.
  MasterJob* job_of(NodeId node, JobId id, int worker) const {
    if (coordinator_.node_of(id, worker) != node) return nullptr;
    const auto found = jobs_.find(id);
    return found == jobs_.end() || found->second->state() != JobState::kRunning
               ? nullptr
               : found->second.get();
  }

  void heard(NodeId node, const wire::NodeMessage& message) {
    if (message.has_said()) {
      const wire::WorkerSaid& said = message.said();
      MasterJob* job = job_of(node, said.job(), said.worker());
      if (job == nullptr) return;
      const auto words = parse_worker_message(said.message());
      if (!words.ok()) return peers_->refuse(node, words.error());
      if (is_server(said.worker())) {
        job->run().serving(server_of(said.worker()), peers_->host_of(node),
                           words->serving().port());
      } else {
        job->run().message(said.worker(), *words);
      }
      if (words->event().kind() == "checkpoint_failed")
        config_.log(fmt::format("{}: no checkpoint: {}", job->name(), words->event().detail()));
      auto actions = tell(coordinator_, said.job(), said.worker(), *words, now());
      if (!actions.ok()) return peers_->refuse(node, actions.error());
      apply(std::move(*actions));
    } else if (message.has_line()) {
      const wire::WorkerLine& line = message.line();
      MasterJob* job = job_of(node, line.job(), line.worker());
      if (job == nullptr) return;
      if (is_server(line.worker()))
        return job->run().server_line(server_of(line.worker()), line.text());
      const Stream stream = line.errors() ? Stream::kErrors : Stream::kOutput;
      job->run().line(line.worker(), stream, line.text());
    } else if (message.has_ended()) {
      const wire::WorkerEnded& ended = message.ended();
      MasterJob* job = job_of(node, ended.job(), ended.worker());
      if (job == nullptr) return;
      const auto end = from_wire(ended);
      if (!end.ok()) return peers_->refuse(node, end.error());
      if (is_server(ended.worker())) {
        return apply(coordinator_.server_ended(ended.job(), server_of(ended.worker()),
                                               describe_server_end(*end), now()));
      }
      const Team* team = coordinator_.team(ended.job());
      const bool was_wanted = team != nullptr && team->wants(ended.worker());
      const Ending ending = job->run().ended(ended.worker(), *end, team);
      if (was_wanted && ending.kind == Ending::Kind::kLost) ++workers_lost_;
      apply(coordinator_.ended(ended.job(), ended.worker(), ending, now()));
      look_whether_done();
    }
  }

  // A job whose files cannot be written ends.
  void keep(MasterJob& job, Status status) {
    if (status.ok() || job.state() != JobState::kRunning) return;
    config_.log(fmt::format("{}: {}", job.name(), status.error().message()));
    const JobId id = job.id();
    broken_.emplace(id, std::move(status).error());
    apply(coordinator_.cancel(id, now()));
    apply(coordinator_.cancel(id, now()));
  }

  void apply(JobActions actions) {
    for (JobAction& action : actions) todo_.push_back(std::move(action));
    if (applying_) return;
    applying_ = true;
    while (!todo_.empty()) {
      const JobAction action = std::move(todo_.front());
      todo_.pop_front();
      MasterJob& job = *jobs_.at(action.job);
      std::visit([&](const auto& what) { carry_out(job, what, action.node); }, action.action);
    }
    applying_ = false;
    const TimePoint deadline = coordinator_.deadline();
    if (deadline == TimePoint::max()) return timer_.cancel();
    timer_ = loop_.after(std::max<TimePoint::duration>(deadline - now(), milliseconds(1)),
                         [this] { apply(coordinator_.tick(now())); });
  }

  // Whether processes of the job may start; begins it if it has not.
  bool is_ready(MasterJob& job) {
    if (shutting_down_) return false;
    if (broken_.contains(job.id())) return false;
    if (job.state() == JobState::kQueued) {
      const std::string& host = config_.listen.host;
      const bool anywhere = host == "0.0.0.0" || host == "::";
      keep_begun(job, job.begin(common_kernels(*peers_), anywhere ? "" : host));
    }
    return job.state() == JobState::kRunning;
  }

  void carry_out(MasterJob& job, const StartWorker& start, NodeId node) {
    if (!is_ready(job)) return;
    job.run().add_worker(start.worker);
    peers_->send(node, order_to_start(job, start.worker));
  }

  // A job that cannot begin ends before it had a worker.
  void keep_begun(MasterJob& job, Status status) {
    if (status.ok()) return;
    broken_.emplace(job.id(), std::move(status).error());
    const JobId id = job.id();
    apply(coordinator_.cancel(id, now()));
    for (const int worker : coordinator_.workers_of(id))
      apply(coordinator_.ended(id, worker, {}, now()));
  }

  void carry_out(MasterJob& job, const PlaceWorker& place, NodeId node) {
    if (job.state() != JobState::kRunning) return;
    const bool searches = job.run().must_find_checkpoint(place);
    // A search that is under way shuts out whoever was placed before it ended.
    if (!searches && !held_.contains(job.id())) return send_place(job, place, node, nullptr);
    Held& held = held_[job.id()];
    const bool is_first = std::exchange(held.generation, place.generation) != place.generation;
    if (is_first) held.places.clear();
    held.places.emplace_back(place, node);
    if (!is_first || !searches) return;
    search_.begin(job.id(), job.directory(), newest_or_start,
                  [this, &job](const Result<ResumePoint>& point) { release(job, point); });
  }

  // The checkpoint is found from which the members of a generation shall go on.
  void release(MasterJob& job, const Result<ResumePoint>& point) {
    if (shutting_down_ || (!point.ok() && point.error().code() == Code::kCancelled)) return;
    const Held held = std::move(held_[job.id()]);
    held_.erase(job.id());
    if (!point.ok()) return keep(job, point.error());
    for (const auto& [place, node] : held.places) send_place(job, place, node, &*point);
  }

  void send_place(MasterJob& job, const PlaceWorker& place, NodeId node, const ResumePoint* found) {
    if (job.state() != JobState::kRunning) return;
    const auto words = job.run().place(place, job.meeting_point(), found);
    if (!words.ok()) return keep(job, words.error());
    peers_->send(node, order_to_tell(job.id(), place.worker, *words));
  }

  void carry_out(MasterJob& job, const AnswerWorker& answer, NodeId node) {
    peers_->send(node, order_to_tell(job.id(), answer.worker, to_wire(answer)));
  }

  void carry_out(MasterJob& job, const EndWorker& end, NodeId node) {
    peers_->send(node, order_to_end(job.id(), end.worker, end.order));
  }

  void carry_out(MasterJob& job, const StartServer& start, NodeId node) {
    if (is_ready(job)) peers_->send(node, order_to_start(job, process_of_server(start.server)));
  }
  void carry_out(MasterJob& job, const EndServer& end, NodeId node) {
    peers_->send(node, order_to_end(job.id(), process_of_server(end.server), Order::kKill));
  }

  void carry_out(MasterJob& job, const TellUser& news, NodeId) {
    config_.log(fmt::format("{}: {}: {} {}", job.name(), news.kind, news.who, news.detail));
    if (job.state() == JobState::kRunning) job.run().tell(news);
  }

  void carry_out(MasterJob& job, const EndJob& end, NodeId) {
    if (shutting_down_) return;  // Its files stay as they are, for the next master.
    search_.forget(job.id());
    held_.erase(job.id());
    const auto broken = broken_.find(job.id());
    if (broken != broken_.end()) {
      job.end(broken->second);
      broken_.erase(broken);
    } else {
      job.end(end);
    }
    config_.log(fmt::format("{}: {}", job.name(), to_string(job.state())));
  }

  void look_whether_done() {
    if (!shutting_down_ || !done_) return;
    for (const auto& [id, job] : jobs_) {
      if (!coordinator_.workers_of(id).empty()) return;
    }
    end_shut_down();
  }

  void end_shut_down() {
    give_up_.cancel();
    if (done_) std::exchange(done_, nullptr)();
  }

  // Places of a generation that goes on from a checkpoint, until that is found.
  struct Held {
    std::uint64_t generation = 0;
    std::vector<std::pair<PlaceWorker, NodeId>> places;
  };

  net::Loop& loop_;
  const MasterConfig config_;
  Descriptor lock_;
  Coordinator coordinator_;
  MasterJobs jobs_;
  std::map<JobId, Accepted> accepted_;  // As the journal has them.
  std::map<JobId, Error> broken_;       // Jobs that end because of their files.
  std::map<JobId, Held> held_;
  JobId next_job_ = 1;
  std::uint64_t workers_lost_ = 0;
  std::deque<JobAction> todo_;
  bool applying_ = false, shutting_down_ = false;
  std::function<void()> done_;
  net::Timer timer_, give_up_;
  std::unique_ptr<Peers> peers_;
  CheckpointSearch search_{loop_};
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
