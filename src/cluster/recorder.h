// Keeps what workers say: metrics.jsonl and events.jsonl from the one that speaks for all,
// worker-N.log of each as it comes, and the numbers of the report. It also keeps the last lines of
// each log, for the message about a worker that died.
//
// What the disk does not take is left out: lines of a log are not worth the training that they tell
// of. The first that is left out is an event and a warning. Belongs to one thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/line_file.h"
#include "cluster/report.h"
#include "cluster/resume.h"
#include "cluster/run_directory.h"
#include "cluster/words.h"
#include "wire/frame.h"

namespace tandem::cluster {

class Recorder {
 public:
  // Lines of the log that are kept for messages, and events that are kept for the report (all are
  // in events.jsonl).
  static constexpr std::size_t kLastLines = 10;
  static constexpr std::size_t kMostEvents = 10000;

  // Creates the files. Times count from now.
  static Result<Recorder> create(const RunDirectory& directory, std::int64_t workers);
  // Goes on with those of a run that has ended. Times count from its last.
  static Result<Recorder> reopen(const RunDirectory& directory, std::int64_t workers);

  // For one more worker, with a number above those that there were. `directory` is create()'s.
  void add_worker(const RunDirectory& directory, std::size_t number);
  // It prints nothing more: its log is closed.
  void end_worker(std::size_t number);
  // Takes away what was recorded after the point (cluster/resume.h).
  Status go_back_to(const RunDirectory& directory, const ResumePoint& point);
  // Whose news are recorded from now on; at first worker 0's.
  void set_speaker(std::size_t worker) { speaker_ = worker; }
  std::size_t speaker() const { return speaker_; }

  // Called once, when something cannot be written.
  using Warn = std::function<void(const Event& event)>;
  void set_warn(Warn warn) { warn_ = std::move(warn); }

  void message(std::size_t worker, const wire::WorkerMessage& message);
  void line(std::size_t worker, std::string_view text);
  void event(std::string_view kind, std::string_view who, std::string_view detail,
             std::optional<double> recovered_ms = {});

  double elapsed_s() const;
  const std::vector<Words>& words() const { return words_; }  // By worker.
  const std::optional<wire::Evaluated>& tested() const { return tested_; }
  const std::vector<Event>& events() const { return events_; }

 private:
  using Logs = std::vector<std::optional<LineFile>>;

  Recorder(LineFile metrics, LineFile events, Logs logs)
      : metrics_file_(std::move(metrics)),
        events_file_(std::move(events)),
        logs_(std::move(logs)),
        words_(logs_.size()) {}

  // Each file by `open`: LineFile's create() or reopen().
  static Result<Recorder> with_files(const RunDirectory& directory, std::int64_t workers,
                                     Result<LineFile> (*open)(const std::filesystem::path&));
  void record_news(const wire::WorkerMessage& message);
  void record(const wire::Started& started);
  void record(const wire::Progress& progress);
  void record(const wire::Evaluated& evaluated);
  void record(const wire::Tables& tables);
  Status read_evaluations(const RunDirectory& directory);
  Status record(const Event& event);
  void note(const Status& written);

  double before_s_ = 0;  // Of the run until it ended the last time.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  LineFile metrics_file_, events_file_;
  Logs logs_;  // By worker; none of those that have ended, or never were.
  Warn warn_;
  bool has_warned_ = false;
  std::vector<Words> words_;
  std::size_t speaker_ = 0;
  bool has_noted_ = false;                  // What a worker had to say at its start.
  std::optional<wire::Progress> recorded_;  // The last in metrics.jsonl.
  std::set<std::string> evaluations_;       // In metrics.jsonl, without their times.
  std::optional<wire::Evaluated> tested_;
  std::vector<Event> events_;
};

}  // namespace tandem::cluster
