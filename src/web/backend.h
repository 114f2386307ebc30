// What the HTTP API needs from the master: jobs, nodes, logs and metrics, as JSON. The master
// implements it and owns it; the server only borrows it and must end before it.
//
// Methods are called from any thread, several at a time. Each should return within a second: a
// caller waits for it, and so does the end of the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::web {

struct Submission {
  std::string job_toml;
  std::vector<std::string> overrides;  // key=value
  int priority = 0;
  std::string base_directory;  // From which the job's relative paths are taken; "": the master's.
};

// A part of worker `worker`'s log, from byte `offset`.
struct LogQuery {
  std::string job;
  int worker = 0;
  std::uint64_t offset = 0;
  std::size_t most_bytes = std::size_t{256} << 10;
};

// Bytes of a file that may still grow.
struct LogPart {
  std::string text;
  std::uint64_t next_offset = 0;  // Where to go on.
  bool ended = false;             // Nothing will follow `text`.
};

// What a job shall have from now on; what is not named stays. At least one is.
struct Resizing {
  std::optional<std::int64_t> workers;
  std::optional<std::int64_t> servers;  // Parameter servers.
};

class Backend {
 public:
  virtual ~Backend() = default;

  // {"jobs": [...]}, {...}, {"nodes": [...]}: docs/http-api.md.
  virtual Result<nlohmann::json> jobs() = 0;
  virtual Result<nlohmann::json> job(const std::string& id) = 0;
  virtual Result<nlohmann::json> nodes() = 0;

  // Each returns the job as it is now. kInvalidArgument of the last three: the job's state does not
  // allow it.
  virtual Result<nlohmann::json> submit(const Submission& submission) = 0;
  virtual Result<nlohmann::json> cancel(const std::string& id) = 0;
  virtual Result<nlohmann::json> resume(const std::string& id,
                                        std::optional<std::int64_t> step) = 0;
  virtual Result<nlohmann::json> resize(const std::string& id, const Resizing& wanted) = 0;

  // report.json of a run that has ended; kNotFound before.
  virtual Result<nlohmann::json> report(const std::string& id) = 0;
  virtual Result<LogPart> logs(const LogQuery& query) = 0;
  // Whole lines of metrics.jsonl.
  virtual Result<LogPart> metrics_lines(const std::string& id, std::uint64_t offset) = 0;

  // The text of /metrics, in Prometheus' format.
  virtual std::string prometheus() = 0;
};

}  // namespace tandem::web
