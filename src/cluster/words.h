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

}  // namespace tandem::cluster
