// `tandem master`: accepts jobs and nodes, and does what its coordinator decides. A job that was
// accepted is on disk before the caller hears of it, and goes on from its newest checkpoint when a
// master starts again in the same place.
//
// Everything belongs to the thread of its Loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/resizing.h"
#include "cluster/supervision.h"
#include "job/parse.h"
#include "net/address.h"
#include "net/limits.h"
#include "net/loop.h"
#include "net/secret.h"

namespace tandem::cluster {

struct MasterConfig {
  net::Endpoint listen;  // For nodes.
  net::Security security;
  net::Limits net_limits;
  Limits worker_limits;
  std::filesystem::path runs;  // Absolute; a run directory for each job.
  std::string version;
  std::function<void(std::string_view)> log;
  std::function<void(const nlohmann::json& event)> publish;
};

struct JobSubmission {
  job::ParsedJob parsed;
  std::string job_text;  // job::print(parsed.job).
  std::filesystem::path base_directory;
  int priority = 0;
};

class Master {
 public:
  // Listens from now on, and takes up the jobs that an earlier master left.
  static Result<std::unique_ptr<Master>> create(net::Loop& loop, MasterConfig config);
  ~Master();

  std::uint16_t port() const;

  Result<nlohmann::json> submit(JobSubmission submission);
  Result<nlohmann::json> cancel(const std::string& id);
  // Its checkpoints are read first, which may take long: `answer` is called when that is done, or
  // at once with what speaks against it. Until then the job is queued and `checking`.
  using Answer = std::function<void(Result<nlohmann::json>)>;
  void resume(const std::string& id, std::optional<std::int64_t> step, Answer answer);
  Result<nlohmann::json> resize(const std::string& id, const Resizing& wanted);
  nlohmann::json jobs() const;
  Result<nlohmann::json> job(const std::string& id) const;
  nlohmann::json nodes() const;
  // Where the job's files are. kNotFound.
  Result<std::filesystem::path> directory_of(const std::string& id) const;
  Result<bool> has_ended(const std::string& id) const;
  std::string prometheus() const;

  // Asks every worker to save its state and end; `done` is called when all have, or after a while.
  void shut_down(std::function<void()> done);

 private:
  class Impl;
  explicit Master(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::cluster
