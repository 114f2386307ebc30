// What the command line says, as plain values: one struct for each sub-command, filled by
// command_line.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/supervision.h"
#include "net/secret.h"

namespace tandem::cli {

enum class Format : std::uint8_t { kText, kJson };
enum class Detail : std::uint8_t { kQuiet, kNormal, kVerbose };

struct TrainOptions {
  std::string job;                     // A path, or "-" for stdin; "": that of `run`.
  std::string run;                     // A run directory to go on with.
  std::optional<std::int64_t> step;    // From its checkpoint of this step.
  bool resume = false;                 // Go on with what `out` holds, if it holds anything.
  std::vector<std::string> overrides;  // key=value
  std::string out;                     // "": runs/NAME-N.
  std::string worker_binary;           // "": beside this program.
  std::string hosts;                   // A file of hosts; "": this machine.
  std::string ssh = "ssh -o BatchMode=yes -o ConnectTimeout=20";  // What reaches them.
  bool print_job = false;
  bool dry_run = false;
  Format format = Format::kText;
  Detail detail = Detail::kNormal;
  cluster::Limits limits;
};

struct EvalOptions {
  std::string model;  // A .safetensors file or a run directory.
  std::vector<std::string> overrides;
  std::string part = "test";
  std::string worker_binary;
  Format format = Format::kText;
};

struct PredictOptions {
  std::string model;
  std::vector<std::string> inputs;
  std::int64_t top = 1;
  std::optional<std::string> prompt;  // Continue a text instead of classifying inputs.
  std::int64_t length = 200;
  double temperature = 0.8;
  std::uint64_t seed = 1;
  std::string worker_binary;
  Format format = Format::kText;
};

struct ModelSummaryOptions {
  std::string model;
  Format format = Format::kText;
};

struct ModelVerifyOptions {
  std::string model;
  Format format = Format::kText;
};

struct ModelExportOptions {
  std::string model;
  std::string out;
  std::string format;  // npz, safetensors; "": by the name of `out`.
};

// What of a run's checkpoints is asked for.
enum class CheckpointAction : std::uint8_t { kList, kShow, kVerify, kDiff, kPrune };

struct CheckpointOptions {
  CheckpointAction action = CheckpointAction::kList;
  std::string run;                    // Its directory.
  std::optional<std::int64_t> step;   // "": the newest; verify: all.
  std::optional<std::int64_t> other;  // diff: the second.
  std::int64_t keep = 1;              // prune.
  Format format = Format::kText;
};

struct DoctorOptions {
  std::string worker_binary;
  Format format = Format::kText;
};

struct BenchAllReduceOptions {
  std::int64_t ranks = 2;
  std::vector<std::int64_t> bytes = {1024, 1 << 18, 1 << 20, 1 << 24, 1 << 26};
  std::vector<std::string> engines = {"shm", "gloo"};
  std::vector<std::string> orders = {"ordered"};
  std::string worker_binary;
  Format format = Format::kText;
};

struct BenchCheckpointOptions {
  std::int64_t bytes = 500'000'000;
  std::int64_t rounds = 5;
  std::string directory = ".";
  std::string measure_in;  // Of the process that measures: a directory that is its own.
  Format format = Format::kText;
};

// What a process of `bench ps` does: the one that was called starts one that measures, which starts
// the others.
enum class BenchPsRole : std::uint8_t { kAsked, kMeasures, kServes, kWorks, kEchoes };

struct BenchPsOptions {
  bool dense = true, sparse = true;  // What is measured.

  std::vector<std::string> transports = {"shm", "tcp"};
  std::vector<std::int64_t> bytes = {1 << 10, 1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 25};
  std::int64_t workers = 1;
  std::int64_t servers = 1;
  net::TlsFiles tls;

  std::int64_t sparse_keys = 10'000'000;  // Of a push and of a pull.
  std::int64_t rows = 10'000'000;
  std::int64_t width = 1;
  Format format = Format::kText;

  // Of the processes that this one starts.
  BenchPsRole role = BenchPsRole::kAsked;
  std::int64_t rank = 0;            // kWorks.
  std::vector<std::int64_t> ports;  // kWorks: of the servers.
};

// With what a program of the cluster proves itself.
struct SecurityOptions {
  std::string secret;  // A file; "": TANDEM_SECRET, or the user's.
  net::TlsFiles tls;
};

struct MasterOptions {
  std::string listen = "127.0.0.1:7071";  // For nodes.
  std::string http = "127.0.0.1:7070";
  std::string runs = "runs";
  bool init = false;   // Only make the secret.
  bool token = false;  // Only print what HTTP requests need.
  SecurityOptions security;
  cluster::Limits limits;
};

struct NodeOptions {
  std::string master;
  std::int64_t slots = 0;  // 0: as many as cores.
  std::string name;        // "": the host's.
  double master_timeout_s = 10;
  SecurityOptions security;
  std::string worker_binary;
};

enum class ClientAction : std::uint8_t {
  kSubmit,
  kStatus,
  kJobs,
  kLogs,
  kCancel,
  kResume,
  kResize,
  kNodes
};

// What a user asks a master over HTTP.
struct ClientOptions {
  ClientAction action = ClientAction::kStatus;
  std::string master;  // HOST:PORT; "": TANDEM_MASTER, or this machine's.
  std::string secret;  // As SecurityOptions::secret.
  std::string job;     // A file to submit, or the name of a job.
  std::vector<std::string> overrides;
  std::int64_t priority = 0;
  std::optional<std::int64_t> workers, servers;  // To have.
  std::int64_t worker = 0;
  std::optional<std::int64_t> step;
  bool follow = false;  // logs; status: again and again.
  Format format = Format::kText;
};

// A parameter server, started by a node.
struct ServerOptions {
  std::string address = "127.0.0.1";
  int control = -1;  // The descriptor of its end of the node's socket.
  net::TlsFiles tls;
};

struct JobReferenceOptions {};

// Text to print and be done: --help, --version.
struct HelpOptions {
  std::string text;
};

using Options =
    std::variant<HelpOptions, TrainOptions, EvalOptions, PredictOptions, ModelSummaryOptions,
                 ModelVerifyOptions, ModelExportOptions, CheckpointOptions, DoctorOptions,
                 BenchAllReduceOptions, BenchCheckpointOptions, BenchPsOptions, MasterOptions,
                 NodeOptions, ClientOptions, ServerOptions, JobReferenceOptions>;

}  // namespace tandem::cli
