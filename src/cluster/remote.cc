#include "cluster/remote.h"

#include <algorithm>

namespace tandem::cluster {
namespace {

template <typename Message>
Result<Message> parse(const std::string& bytes, const char* what) {
  Message message;
  if (message.ParseFromString(bytes)) return message;
  return Error(Code::kCorrupt, std::string("the bytes are no message of a ") + what);
}

template <typename Enum>
Result<Enum> in_range(std::int32_t number, Enum last) {
  if (number >= 0 && number <= static_cast<std::int32_t>(last)) return static_cast<Enum>(number);
  return Error(Code::kCorrupt, "a number in the message is out of range");
}

}  // namespace

bool is_node_name(std::string_view name) {
  constexpr std::size_t kMost = 64;
  return !name.empty() && name.size() <= kMost &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

Result<wire::NodeMessage> parse_node_message(const std::string& bytes) {
  return parse<wire::NodeMessage>(bytes, "node");
}

Result<wire::MasterMessage> parse_master_message(const std::string& bytes) {
  return parse<wire::MasterMessage>(bytes, "master");
}

Result<wire::WorkerMessage> parse_worker_message(const std::string& bytes) {
  return parse<wire::WorkerMessage>(bytes, "worker");
}

wire::WorkerEnded to_wire(std::int64_t job, int worker, const WorkerEnd& end) {
  wire::WorkerEnded ended;
  ended.set_job(job);
  ended.set_worker(worker);
  ended.set_pid(end.pid);
  ended.set_by_signal(end.exit.by_signal);
  ended.set_number(end.exit.number);
  ended.set_cause(static_cast<std::int32_t>(end.cause));
  ended.set_order(static_cast<std::int32_t>(end.order));
  if (end.failure) {
    ended.set_failure_code(std::string(to_string(end.failure->code())));
    ended.set_failure(end.failure->message());
  }
  ended.set_control_bytes(end.control_bytes);
  ended.set_started(end.started);
  ended.set_badly(end.badly);
  return ended;
}

Result<WorkerEnd> from_wire(const wire::WorkerEnded& ended) {
  WorkerEnd end;
  end.pid = ended.pid();
  end.exit = {ended.by_signal(), ended.number()};
  TANDEM_ASSIGN(end.cause, in_range(ended.cause(), Cause::kFailure));
  TANDEM_ASSIGN(end.order, in_range(ended.order(), Order::kKill));
  if (!ended.failure_code().empty()) end.failure = Error(Code::kInternal, ended.failure());
  end.control_bytes = ended.control_bytes();
  end.started = ended.started();
  end.badly = ended.badly();
  return end;
}

}  // namespace tandem::cluster
