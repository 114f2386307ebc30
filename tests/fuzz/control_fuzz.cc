// clang-format off
// Sources: wire/worker.pb.cc wire/cluster.pb.cc src/cluster/remote.cc src/converge/judge.cc src/converge/messages.cc
// src/base/check.cc src/base/result.cc
// Links: -lfmt -lprotobuf-lite
// clang-format on
//
// Whatever a node, a master or a worker sends as a control message ends with an error or with a
// message whose parts can be used: one that is sent on reads the same, a worker's end goes there
// and back, and a question that can be read has a verdict that can.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cluster/remote.h"
#include "converge/messages.h"

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

void check_question(const std::string& bytes) {
  const auto message = cluster::parse_worker_message(bytes);
  if (!message.ok()) return;
  if (message->has_verdict()) static_cast<void>(converge::from_wire(message->verdict()));
  if (!message->has_question()) return;
  const auto question = converge::from_wire(message->question());
  if (!question.ok()) return;
  const converge::Criteria criteria{
      .patience = 3, .metric = "accuracy", .target = 0.9, .change = 0.1, .divergence = 0.1};
  const converge::Verdict verdict = converge::judge(criteria, *question);
  const auto again = converge::from_wire(converge::to_wire(verdict, message->question().number()));
  if (!again.ok() || again->ending != verdict.ending || again->reason != verdict.reason)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_round(cluster::parse_node_message, bytes);
  check_round(cluster::parse_master_message, bytes);
  check_round(cluster::parse_worker_message, bytes);
  check_end(bytes);
  check_question(bytes);
  return 0;
}
