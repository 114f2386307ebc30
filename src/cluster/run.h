// One run of a job on this machine: writes the run directory, starts the workers through the
// node, records what they say and ends with a report, whatever happens. Everything happens on the
// calling thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "cluster/node.h"
#include "cluster/recorder.h"
#include "cluster/report.h"
#include "cluster/resume.h"
#include "cluster/run_directory.h"
#include "collective/join.h"
#include "job/parse.h"
#include "net/secret.h"

namespace tandem::cluster {

enum class Rehearsal : std::uint8_t { kNo, kDryRun };  // kDryRun: one step of everything.

struct RunRequest {
  job::ParsedJob parsed;
  std::string job_text;                  // job::print(parsed.job): what job.toml shall hold.
  std::filesystem::path base_directory;  // From which the job's relative paths are taken; absolute.
  std::filesystem::path worker_program;
  std::filesystem::path server_program = "/proc/self/exe";  // This one serves, too.
  std::vector<std::string> environment;                     // Ours; the worker's is made from it.
  Kernels kernels;
  net::TlsFiles tls;  // Between workers and servers; none: in the clear.
  Limits limits;
  std::optional<collective::JoinOptions> place;  // When this run is one rank of many.
  Rehearsal rehearsal = Rehearsal::kNo;
  std::optional<ResumePoint> resume;  // Go on with what the directory holds.
  std::string version;
};

// Whoever shows a run to a person. Called while the run goes on, on its thread.
class RunView {
 public:
  virtual ~RunView() = default;

  // Of the worker that speaks for all.
  virtual void message(const wire::WorkerMessage& message) = 0;
  virtual void line(int worker, Stream stream, std::string_view text) = 0;
  virtual void stopping(Order order, Cause cause) = 0;
  virtual void resumed() = 0;
  virtual void tick() = 0;
  // A worker died without saying why; these are the last lines that it printed.
  virtual void lost(std::size_t worker, const std::deque<std::string>& last_lines) = 0;
};

// As if the worker that speaks for all had told of it.
void show(const Event& event, RunView& view);

// Runs the job in `directory`, which is locked (RunLock). Never fails as a call: an error is in the
// report, which is also in the directory unless the disk itself is the error.
Report run(const RunRequest& request, const RunDirectory& directory, SignalQueue& signals,
           RunView& view);

}  // namespace tandem::cluster
