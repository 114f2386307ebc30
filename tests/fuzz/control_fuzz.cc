// clang-format off
// Sources: wire/worker.pb.cc wire/cluster.pb.cc src/cluster/remote.cc src/base/check.cc src/base/result.cc
// Links: -lfmt -lprotobuf-lite
// clang-format on
//
// Whatever a node, a master or a worker sends as a control message ends with an error or with a
// message whose parts can be used: one that is sent on reads the same, and a worker's end goes
// there
// and back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/remote.h"

namespace {

using namespace tandem;

// A message that was read is the same after it was written and read again.
template <typename Read>
void check_round(Read read, const std::string& bytes) {
  const auto message = read(bytes);
  if (!message.ok()) return;
  const std::string written = message->SerializeAsString();
  const auto again = read(written);
  if (!again.ok() || again->SerializeAsString() != written) std::abort();
}

void check_end(const std::string& bytes) {
  const auto message = cluster::parse_node_message(bytes);
  if (!message.ok() || !message->has_ended()) return;
  const wire::WorkerEnded& ended = message->ended();
  const auto end = cluster::from_wire(ended);
  if (!end.ok()) return;
  const wire::WorkerEnded again = cluster::to_wire(ended.job(), ended.worker(), *end);
  if (again.cause() != ended.cause() || again.order() != ended.order() ||
      again.number() != ended.number())
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_round(cluster::parse_node_message, bytes);
  check_round(cluster::parse_master_message, bytes);
  check_round(cluster::parse_worker_message, bytes);
  check_end(bytes);
  return 0;
}
