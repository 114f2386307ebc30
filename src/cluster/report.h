// The result of a run: report.json, a contract that programs rely on. docs/report.md lists every
// field; to_json() is the one place that writes them. Plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"

namespace tandem::cluster {

enum class RunStatus : std::uint8_t { kFinished, kConverged, kFailed, kCancelled };

// "finished", "converged", "failed", "cancelled".
std::string_view to_string(RunStatus status);

struct Event {
  double t_s = 0;    // Since the run started.
  std::string kind;  // lost, joined, recovered, checkpoint, rollback, cancelled, ...
  std::string who;   // "worker 0", "user", ...
  std::string detail;
  std::optional<double> recovered_ms;
};

struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy;   // Nothing for models that predict values.
  std::optional<double> rmse = {};  // Of models that predict values with mse.
};

// Of workers or servers.
struct Count {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

// A table that parameter servers keep by key.
struct TableSize {
  std::string name;
  std::uint64_t rows = 0, candidates = 0, evicted = 0, bytes = 0;
};

// Bytes by kind, as the workers and servers of the run count them.
struct Traffic {
  std::uint64_t gradients = 0;
  std::uint64_t parameters = 0;
  std::uint64_t control = 0;
};

struct Report {
  std::string name;
  RunStatus status = RunStatus::kFailed;
  std::string reason;          // Why it ended, for people.
  std::optional<Error> error;  // Why it failed.

  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  std::int64_t samples = 0;
  double wall_s = 0;
  double train_s = 0;

  std::string weights_hash;  // "" when there are no final weights.
  bool exact = true;
  std::optional<Evaluation> evaluation;  // On the test part.
  std::string model;  // model.safetensors, from the run directory; "" when there is none.

  std::string strategy;
  std::string engine = "none";
  std::int64_t lanes = 1;
  Count workers, servers;
  std::int64_t replicas = 0;  // Servers that hold each slice.
  Traffic sent, received;
  // Where workers do not wait for each other: how often parameters were 0, 1, ... steps behind, and
  // gradients missed 0, 1, ... updates of others.
  std::vector<std::uint64_t> staleness, missed_updates;
  std::vector<TableSize> tables;     // That servers keep by key.
  std::int64_t dropped_samples = 0;  // Of lanes that came too late for a quorum.
  std::vector<Event> events;

  std::string job_hash;                  // XXH3-128 of job.toml.
  std::filesystem::path base_directory;  // From which the job's relative paths are taken.
  Kernels kernels;
  std::int64_t threads = 1;
  std::string started_at;  // 2024-05-01T12:00:00Z
  std::string version;     // Of Tandem.

  double samples_per_s() const { return train_s > 0 ? static_cast<double>(samples) / train_s : 0; }
};

// The whole file, with a newline at its end.
std::string to_json(const Report& report);

// What `tandem train` exits with.
int exit_code(const Report& report);

}  // namespace tandem::cluster
