// What a worker has said so far. Plain values.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <string>

#include "wire/frame.h"

namespace tandem::cluster {

// The last of each kind, when one came, and the last lines of its log.
struct Words {
  std::optional<wire::Progress> progress;
  std::optional<wire::Finished> finished;
  std::optional<wire::Failed> failed;
  std::deque<std::string> last_lines;
};

// What messages and events call a worker.
inline std::string worker_name(std::size_t worker) {
  return fmt::format("worker {}", worker);
}

// Whoever numbers processes of a job gives its workers their numbers, and its parameter servers
// numbers below 0.
inline int process_of_server(int server) {
  return -1 - server;
}
inline bool is_server(int process) {
  return process < 0;
}
inline int server_of(int process) {
  return -1 - process;
}
inline std::string server_name(int server) {
  return fmt::format("server {}", server);
}

}  // namespace tandem::cluster
