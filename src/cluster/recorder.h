// Keeps what a worker says: metrics.jsonl, events.jsonl and worker-0.log as it comes, and the
// numbers of the report. It also keeps the last lines of the log, for the message about a worker
// that died. Belongs to one thread.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/line_file.h"
#include "cluster/report.h"
#include "cluster/run_directory.h"
#include "wire/frame.h"

namespace tandem::cluster {

class Recorder {
 public:
  // Lines of the log that are kept for messages, and events that are kept for the report (all are
  // in events.jsonl).
  static constexpr std::size_t kLastLines = 10;
  static constexpr std::size_t kMostEvents = 10000;

  // Creates the files. Times count from now.
  static Result<Recorder> create(const RunDirectory& directory);

  // Each of these fails when the disk does.
  Status message(const wire::WorkerMessage& message);
  Status line(std::string_view text);
  Status event(std::string_view kind, std::string_view who, std::string_view detail);

  double elapsed_s() const;
  // The last of each kind, when one came.
  const std::optional<wire::Progress>& progress() const { return progress_; }
  const std::optional<wire::Finished>& finished() const { return finished_; }
  const std::optional<wire::Failed>& failed() const { return failed_; }
  const std::optional<wire::Evaluated>& tested() const { return tested_; }
  const std::vector<Event>& events() const { return events_; }
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  Recorder(LineFile metrics, LineFile events, LineFile log)
      : metrics_file_(std::move(metrics)),
        events_file_(std::move(events)),
        log_file_(std::move(log)) {}

  Status record(const wire::Progress& progress);
  Status record(const wire::Evaluated& evaluated);

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  LineFile metrics_file_, events_file_, log_file_;
  std::optional<wire::Progress> progress_;
  std::optional<wire::Evaluated> tested_;
  std::optional<wire::Finished> finished_;
  std::optional<wire::Failed> failed_;
  std::vector<Event> events_;
  std::deque<std::string> last_lines_;
};

}  // namespace tandem::cluster
