#include "cluster/recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/file.h"

namespace tandem::cluster {
namespace {

using Json = nlohmann::ordered_json;

// Text of other processes need not be UTF-8; numbers that are not finite become null.
std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double per_second(std::int64_t samples, double seconds) {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

}  // namespace

Result<Recorder> Recorder::with_files(const RunDirectory& directory, std::int64_t workers,
                                      Result<LineFile> (*open)(const std::filesystem::path&)) {
  TANDEM_ASSIGN(LineFile metrics, open(directory.metrics()));
  TANDEM_ASSIGN(LineFile events, open(directory.events()));
  Logs logs;
  for (int worker = 0; worker < workers; ++worker) {
    TANDEM_ASSIGN(LineFile log, open(directory.worker_log(worker)));
    logs.emplace_back(std::move(log));
  }
  return Recorder(std::move(metrics), std::move(events), std::move(logs));
}

Result<Recorder> Recorder::create(const RunDirectory& directory, std::int64_t workers) {
  return with_files(directory, workers, LineFile::create);
}

Result<Recorder> Recorder::reopen(const RunDirectory& directory, std::int64_t workers) {
  TANDEM_ASSIGN(Recorder recorder, with_files(directory, workers, LineFile::reopen));
  TANDEM_ASSIGN(const std::string told, read_file(directory.events()));
  std::istringstream lines(told);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto text = [&](const char* key) {
      return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
    };
    const auto number = [&](const char* key) -> std::optional<double> {
      if (!json.contains(key) || !json[key].is_number()) return std::nullopt;
      return json[key].get<double>();
    };
    const Event event{number("t_s").value_or(0), text("kind"), text("who"), text("detail"),
                      number("recovered_ms")};
    recorder.before_s_ = std::max(recorder.before_s_, event.t_s);
    if (recorder.events_.size() < kMostEvents) recorder.events_.push_back(event);
  }
  TANDEM_TRY(recorder.read_evaluations(directory));
  return recorder;
}

// A run that was killed while it ended judges the test part once more when it goes on.
Status Recorder::read_evaluations(const RunDirectory& directory) {
  evaluations_.clear();
  TANDEM_ASSIGN(const std::string told, read_file(directory.metrics()));
  std::istringstream lines(told);
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("kind", Json()) != "eval") continue;
    json.erase("t_s");
    evaluations_.insert(one_line(json));
  }
  return {};
}

double Recorder::elapsed_s() const {
  return before_s_ +
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Recorder::add_worker(const RunDirectory& directory, std::size_t number) {
  // Numbers may be left out.
  if (logs_.size() <= number) {
    logs_.resize(number + 1);
    words_.resize(number + 1);
  }
  // A run that goes on may have had a worker of this number before.
  auto log = LineFile::reopen(directory.worker_log(static_cast<int>(number)));
  if (!log.ok()) return note(log.error());
  logs_[number].emplace(std::move(*log));
}

void Recorder::end_worker(std::size_t number) {
  if (number < logs_.size()) logs_[number].reset();
}

// A full disk fails again and again; once is enough to know it.
void Recorder::note(const Status& written) {
  if (written.ok() || std::exchange(has_warned_, true)) return;
  const Event event{
      elapsed_s(), "recording_failed", "node",
      written.error().message() + "; training goes on, and what does not fit is left out",
      std::nullopt};
  if (events_.size() < kMostEvents) events_.push_back(event);
  [[maybe_unused]] const Status told = record(event);  // It may fit even so.
  if (warn_) warn_(event);
}

Status Recorder::go_back_to(const RunDirectory& directory, const ResumePoint& point) {
  TANDEM_TRY(cluster::go_back_to(directory, point));
  TANDEM_ASSIGN(metrics_file_, LineFile::reopen(directory.metrics()));
  recorded_.reset();
  tested_.reset();
  return read_evaluations(directory);
}

// Workers compute the same losses; what one says is recorded.
void Recorder::message(std::size_t worker, const wire::WorkerMessage& message) {
  if (worker >= words_.size()) return;  // Of one that was never started.
  // What all tell is recorded by whoever tells first: the speaker may die before it can.
  // What tables hold is told by the first worker alone.
  const bool is_told_by_all = message.has_started() || message.has_evaluated();
  if (worker == speaker_ || is_told_by_all || message.has_tables()) record_news(message);
  Words& words = words_[worker];
  if (message.has_progress()) words.progress = message.progress();
  if (message.has_finished()) words.finished = message.finished();
  if (message.has_failed()) words.failed = message.failed();
}

void Recorder::record_news(const wire::WorkerMessage& message) {
  switch (message.body_case()) {
    case wire::WorkerMessage::kProgress:
      return record(message.progress());
    case wire::WorkerMessage::kEvaluated:
      return record(message.evaluated());
    case wire::WorkerMessage::kTables:
      return record(message.tables());
    case wire::WorkerMessage::kEvent:
      return event(message.event().kind(), worker_name(speaker_), message.event().detail());
    case wire::WorkerMessage::kStarted:
      return record(message.started());
    case wire::WorkerMessage::kWaiting:  // These are between the worker and whoever places it.
    case wire::WorkerMessage::kPlaced:
    case wire::WorkerMessage::kLeft:
    case wire::WorkerMessage::kPlace:
    case wire::WorkerMessage::kQuestion:
    case wire::WorkerMessage::kVerdict:
    case wire::WorkerMessage::kServing:
    case wire::WorkerMessage::kFinished:  // The report tells these.
    case wire::WorkerMessage::kFailed:
    case wire::WorkerMessage::BODY_NOT_SET:  // Of a newer worker; nothing here depends on it.
      return;
  }
}

// Those who start later say the same.
void Recorder::record(const wire::Started& started) {
  if (std::exchange(has_noted_, true)) return;
  for (const std::string& note : started.notes()) event("note", worker_name(speaker_), note);
}

void Recorder::record(const wire::Progress& progress) {
  // A worker says something at least once a second while it trains, evaluates and saves; with
  // nothing new to say it repeats its last Progress. That shows that it lives and is no new
  // measurement.
  // One that speaks since a moment ago may repeat an older one.
  const bool repeated =
      recorded_.has_value() &&
      (progress.step() < recorded_->step() ||
       (progress.step() == recorded_->step() && progress.epoch() == recorded_->epoch()));
  if (repeated) return;
  recorded_ = progress;
  note(metrics_file_.append(one_line(
      {{"t_s", elapsed_s()},
       {"kind", "train"},
       {"step", progress.step()},
       {"epoch", progress.epoch()},
       {"samples", progress.samples()},
       {"loss", progress.loss()},
       {"lr", progress.lr()},
       {"grad_norm", progress.grad_norm() > 0 ? Json(progress.grad_norm()) : Json(nullptr)},
       {"train_s", progress.train_s()},
       {"samples_per_s", per_second(progress.samples(), progress.train_s())}})));
}

void Recorder::record(const wire::Evaluated& evaluated) {
  if (evaluated.part() == "test") tested_ = evaluated;
  Json json = {{"kind", "eval"},
               {"part", evaluated.part()},
               {"step", evaluated.step()},
               {"epoch", evaluated.epoch()},
               {"loss", evaluated.loss()}};
  if (evaluated.has_accuracy()) json["accuracy"] = evaluated.accuracy();
  if (evaluated.has_rmse()) json["rmse"] = evaluated.rmse();
  if (!evaluations_.insert(one_line(json)).second) return;
  Json line = {{"t_s", elapsed_s()}};
  line.update(json);
  note(metrics_file_.append(one_line(line)));
}

void Recorder::record(const wire::Tables& tables) {
  Json sizes = Json::array();
  for (const wire::TableSize& table : tables.tables()) {
    sizes.push_back({{"name", table.name()},
                     {"rows", table.rows()},
                     {"candidates", table.candidates()},
                     {"evicted", table.evicted()},
                     {"bytes", table.bytes()}});
  }
  note(metrics_file_.append(one_line(
      {{"t_s", elapsed_s()}, {"kind", "tables"}, {"step", tables.step()}, {"tables", sizes}})));
}

void Recorder::line(std::size_t worker, std::string_view text) {
  if (worker >= words_.size()) return;
  std::deque<std::string>& lines = words_[worker].last_lines;
  lines.emplace_back(text);
  if (lines.size() > kLastLines) lines.pop_front();
  if (logs_[worker]) note(logs_[worker]->append(text));
}

void Recorder::event(std::string_view kind, std::string_view who, std::string_view detail,
                     std::optional<double> recovered_ms) {
  const Event event{elapsed_s(), std::string(kind), std::string(who), std::string(detail),
                    recovered_ms};
  if (events_.size() < kMostEvents) events_.push_back(event);
  note(record(event));
}

Status Recorder::record(const Event& event) {
  Json json = {
      {"t_s", event.t_s}, {"kind", event.kind}, {"who", event.who}, {"detail", event.detail}};
  if (event.recovered_ms) json["recovered_ms"] = *event.recovered_ms;
  return events_file_.append(one_line(json));
}

}  // namespace tandem::cluster
