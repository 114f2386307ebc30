// The sub-commands of tandem-worker. The light binary `tandem` starts them with checked arguments;
// people do not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "group.h"
#include "net/secret.h"
#include "train/generate.h"
#include "train/trainer.h"

namespace tandem::worker {

struct TrainOptions {
  std::filesystem::path run_directory;
  std::filesystem::path base_directory;
  std::filesystem::path resume;  // A checkpoint's directory, or "".
  int control = -1;              // The socket to the node.
  // The node tells the places on the socket; else `group` and `resume` are all there is.
  bool placed_by_node = false;
  net::TlsFiles tls;  // For parameter servers of a node that uses TLS.
  int number = 0;  // What the node calls this worker; for those who look at the list of processes.
  GroupOptions group;
  train::Rehearsal rehearsal = train::Rehearsal::kNo;
};

enum class Format : std::uint8_t { kText, kJson };

struct EvalOptions {
  std::filesystem::path model, base_directory;
  std::string part = "test";
  std::vector<std::string> overrides;
  Format format = Format::kText;
};

struct PredictOptions {
  std::filesystem::path model;
  std::vector<std::string> inputs;
  std::string prompt;
  bool has_prompt = false;
  std::int64_t top = 1;
  train::GenerateOptions generate;
  Format format = Format::kText;
};

// Of `tandem bench allreduce`.
struct AllReduceOptions {
  GroupOptions group;
  std::vector<std::int64_t> bytes;
  std::string order = "ordered";
};

// Each returns how it ended; main() turns that into a message and an exit code. train() has told
// the node already.
Status train(const TrainOptions& options);
Status eval(const EvalOptions& options);
Status predict(const PredictOptions& options);
Status info();
Status allreduce(const AllReduceOptions& options);

}  // namespace tandem::worker
