#include "cluster/job_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "checkpoint/owner.h"
#include "cluster/meeting.h"
#include "cluster/outcome.h"
#include "cluster/summary.h"
#include "cluster/worker_command.h"

namespace tandem::cluster {
namespace {

std::size_t index(int worker) {
  return static_cast<std::size_t>(worker);
}

}  // namespace

// Records first, so that what a person was shown is on disk.
void JobRun::message(int worker, const wire::WorkerMessage& message) {
  if (message.has_question()) return;  // Between the worker and the coordinator.
  // Who lives on after a roll-back repeats where it was until it has its first step again.
  if (message.has_placed() && message.placed().generation() >= rolled_back_) rolled_back_ = 0;
  if (message.has_progress() && rolled_back_ > 0) return;
  recorder_.message(index(worker), message);
  // All say the same when they have started, and the one that speaks may have died before.
  if (message.has_started() ? !std::exchange(has_started_, true)
                            : index(worker) == recorder_.speaker())
    view_.message(message);
}

void JobRun::line(int worker, Stream stream, std::string_view text) {
  recorder_.line(index(worker), text);
  view_.line(worker, stream, text);
}

// What does not fit on the disk is left out, as of workers' logs.
void JobRun::server_line(int server, std::string_view text) {
  if (!server_logs_.contains(server)) {
    auto log = LineFile::reopen(directory_.server_log(server));
    if (!log.ok()) return;
    server_logs_.emplace(server, std::move(log).value());
  }
  [[maybe_unused]] const Status status = server_logs_.at(server).append(text);
}

Ending JobRun::ended(int worker, const WorkerEnd& end, const Team* team) {
  ends_[worker] = end;
  recorder_.end_worker(index(worker));
  control_bytes_ += end.control_bytes;
  const Words& words = recorder_.words()[index(worker)];
  if (words.finished) return {Ending::Kind::kFinished, ""};
  const bool said_why = words.failed && words.failed->code() != to_string(Code::kCancelled) &&
                        !is_echo(*words.failed);
  // What could not be recorded makes the run's files incomplete; what did not load in time the
  // first time will not the second time.
  const bool hopeless =
      end.cause == Cause::kStartTimeout && team != nullptr && team->generation() == 0;
  if (end.failure || said_why || hopeless) {
    return {Ending::Kind::kFailed,
            said_why ? "failed: " + words.failed->message() : describe_end(end, words)};
  }
  if (team != nullptr && team->wants(worker)) view_.lost(index(worker), words.last_lines);
  return {Ending::Kind::kLost, describe_end(end, words)};
}

Result<wire::WorkerMessage> JobRun::place(const PlaceWorker& place, const MeetingPoint& point,
                                          const ResumePoint* found) {
  if (place.generation != generation_) {
    checkpoint_.clear();
    if (place.anew || found != nullptr) {  // Whoever looked for it has shut out all others.
      TANDEM_ASSIGN(owner_, random_token());
      TANDEM_TRY(checkpoint::set_owner(directory_.path(), owner_));
    }
    if (place.anew) TANDEM_TRY(go_back(found));
    if (place.anew && generation_ > 0 && !place.servers.empty()) rolled_back_ = place.generation;
    generation_ = place.generation;
    workers_.end = place.size;
    placed_servers_ = std::ssize(place.servers);
    if (workers_.start == 0) workers_.start = place.size;
    recorder_.set_speaker(index(place.worker));
  }
  const job::Cluster& cluster = request_.parsed.job.cluster;
  wire::WorkerMessage message;
  wire::Place& told = *message.mutable_place();
  told.set_generation(place.generation);
  told.set_rank(place.rank);
  told.set_size(place.size);
  told.set_engine(cluster.engine);
  told.set_store_host(point.host);
  told.set_store_port(point.port);
  told.set_resume(checkpoint_.string());
  told.set_owner(owner_);
  for (const std::int64_t end : place.lane_ends) told.add_lane_ends(end);
  const auto name = [&](int server, wire::ServerAddress& address) {
    address.set_host(servers_.at(server).host);
    address.set_port(servers_.at(server).port);
  };
  for (const int server : place.servers) name(server, *told.add_servers());
  for (const int server : place.former_servers) name(server, *told.add_former_servers());
  // Who lives on when servers are lost has what is of no more use; and a newcomer may have got a
  // state from others that died before it made a step with them, while the run's files went back.
  const bool can_forget = !place.servers.empty() || !checkpoint_.empty();
  told.set_anew(place.anew && place.generation > 1 && can_forget);
  // Members come when their step, evaluation or save is over, however long it takes: when one dies
  // or falls silent, they all get another place, which ends the wait.
  constexpr double kMeeting_s = 86400;
  told.set_patience_s(kMeeting_s);
  told.set_forming_s(cluster.timeout_s);
  return message;
}

Status JobRun::go_back(const ResumePoint* found) {
  if (generation_ == 0) {
    if (request_.resume) checkpoint_ = request_.resume->checkpoint;
    return {};
  }
  ResumePoint point;
  if (found != nullptr) {
    point = *found;
  } else {
    TANDEM_ASSIGN(point, newest_or_start(directory_));
  }
  for (const std::string& refused : point.refused)
    recorder_.event("checkpoint_damaged", "master", refused);
  TANDEM_TRY(recorder_.go_back_to(directory_, point));
  checkpoint_ = point.checkpoint;
  tell({"rollback", "master",
        checkpoint_.empty()
            ? "what workers and servers had is lost, and there is no checkpoint: from the start"
            : fmt::format("what workers and servers had is lost: from the checkpoint of step {}",
                          point.step)});
  return {};
}

void JobRun::tell(const TellUser& news) {
  std::optional<double> recovered_ms;
  if (news.recovered) recovered_ms = static_cast<double>(news.recovered->count());
  wire::WorkerMessage message;
  message.mutable_event()->set_kind(news.kind);
  message.mutable_event()->set_detail(fmt::format("{}: {}", news.who, news.detail));
  recorder_.event(news.kind, news.who, news.detail, recovered_ms);
  view_.message(message);
}

void JobRun::finish(const EndJob& end, Report& report) {
  report.workers = workers_;
  if (placed_servers_ > 0) report.servers.end = placed_servers_;
  report.sent.control += control_bytes_;
  add_traffic(report, recorder_.words());
  // What could not be recorded makes the run's files incomplete, whatever the workers reached.
  for (const auto& [worker, ended] : ends_) {
    if (!ended.failure) continue;
    return fail(report, *ended.failure);
  }
  const bool was_asked_too_late = end.how == EndJob::How::kCancelled && has_trained_to_the_end();
  if (end.how == EndJob::How::kFinished || was_asked_too_late) return finish_well(report);
  return finish_badly(end, report);
}

// Whether a worker has said so. It then speaks for all.
bool JobRun::has_trained_to_the_end() const {
  return std::ranges::any_of(recorder_.words(), [](const Words& words) {
    return words.finished && status_named(words.finished->status()) != RunStatus::kCancelled;
  });
}

// The words of those that came to the end, which must have come to the same weights.
void JobRun::finish_well(Report& report) {
  const Words* first = nullptr;
  for (std::size_t worker = 0; worker < recorder_.words().size(); ++worker) {
    const Words& words = recorder_.words()[worker];
    if (!words.finished) continue;
    if (first == nullptr) first = &words;
    if (words.finished->weights_hash() == first->finished->weights_hash()) continue;
    fail(report, Error(Code::kInternal,
                       fmt::format("{} ended with other weights ({}) than the others ({}): this is "
                                   "a bug in Tandem; please report it with the job",
                                   worker_name(worker), words.finished->weights_hash(),
                                   first->finished->weights_hash())));
    return;
  }
  report.status = status_named(first->finished->status());
  report.reason = first->finished->reason();
  add_work(report, *first, recorder_.tested(), directory_);
}

void JobRun::finish_badly(const EndJob& end, Report& report) {
  const Words* speaker = nullptr;
  for (const Words& words : recorder_.words()) {
    if (words.finished) speaker = &words;
  }
  if (speaker == nullptr && recorder_.speaker() < recorder_.words().size())
    speaker = &recorder_.words()[recorder_.speaker()];
  if (speaker != nullptr) add_work(report, *speaker, recorder_.tested(), directory_);
  if (end.how == EndJob::How::kCancelled) {
    report.status = RunStatus::kCancelled;
    report.reason = fmt::format(
        "cancelled by the user {}{}",
        place_of(speaker != nullptr ? speaker->progress : std::nullopt),
        speaker == nullptr || speaker->finished ? "" : what_was_not_saved(recorder_.words()));
    return recorder_.event("cancelled", "user", report.reason);
  }
  const int guilty = end.worker;
  if (is_server(guilty)) {
    const int server = server_of(guilty);
    fail(report,
         Error(Code::kPeerLost, fmt::format("{} was lost: {}; its log is {}", server_name(server),
                                            end.reason, directory_.server_log(server).string())));
    return;
  }
  if (!ends_.contains(guilty)) {
    fail(report, Error(Code::kPeerLost, fmt::format("{} was lost with its node; {}",
                                                    worker_name(index(guilty)), end.reason)));
    return;
  }
  const LastWords said{std::span(recorder_.words()).subspan(index(guilty), 1),
                       request_.parsed,
                       {directory_.worker_log(guilty).string()},
                       index(guilty)};
  Outcome outcome = judge(std::span(&ends_.at(guilty), 1), limits_of(request_), said);
  if (!end.reason.empty() && outcome.error)
    outcome.error = Error(outcome.error->code(), outcome.error->message() + "\n" + end.reason);
  if (outcome.lost) report.workers.end = std::max<std::int64_t>(0, report.workers.end - 1);
  report.status = RunStatus::kFailed;
  report.reason = std::move(outcome.reason);
  report.error = std::move(outcome.error);
  if (report.error && report.error->code() == Code::kTimeout)
    recorder_.event("late", "node", report.reason);
}

}  // namespace tandem::cluster
