#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>

#include "base/file.h"
#include "collective/shm_engine.h"
#include "commands.h"
#include "job/parse.h"
#include "train/trainer.h"
#include "wire/frame.h"

namespace tandem::worker {
namespace {

// Until the last worker of the host has loaded its libraries.
constexpr std::chrono::minutes kJoinPatience{2};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

// Sends each message to the node. A node that is gone ends the worker: nobody would see what it
// does.
class NodeReporter final : public train::Reporter {
 public:
  explicit NodeReporter(int control) : control_(control) {}

  void report(const wire::WorkerMessage& message) override {
    if (!status_.ok()) return;
    status_ = wire::send(control_, message);
    if (!status_.ok()) stop_asked = true;
  }

  // The first failure to send.
  Status status() && { return std::move(status_); }

 private:
  const int control_;
  Status status_;
};

// The workers of this run, as far as the node told.
Result<collective::Group> join(const TrainOptions& options) {
  if (options.join.size == 1) return collective::Group();
  if (options.arena < 0) {
    collective::JoinOptions join = options.join;
    const char* token = std::getenv("TANDEM_TOKEN");
    join.token = token == nullptr ? "" : token;
    join.patience = kJoinPatience;
    return collective::join(join);
  }
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::adopt(options.arena));
  collective::Membership membership;
  membership.rank = options.join.rank;
  membership.members.assign(static_cast<std::size_t>(options.join.size), {host_name(), 0});
  TANDEM_ASSIGN(auto engine, collective::make_shm_engine(
                                 std::make_shared<const collective::Arena>(std::move(arena)),
                                 std::move(membership), collective::deadline_after(kJoinPatience)));
  return collective::Group(std::move(engine));
}

Status run(const TrainOptions& options, train::Reporter& reporter, std::string& key) {
  const std::filesystem::path path = options.run_directory / "job.toml";
  TANDEM_ASSIGN(const std::string text, read_file(path, job::kMostFileBytes));
  train::TrainRequest request;
  TANDEM_ASSIGN(request.job, job::parse(text, path.string(), {}));
  request.base_directory = options.base_directory;
  request.run_directory = options.run_directory;
  request.rehearsal = options.rehearsal;
  TANDEM_ASSIGN(collective::Group group, join(options));
  return train::train(request, group, reporter, stop_asked, key);
}

}  // namespace

Status train(const TrainOptions& options) {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked = true; };
  ::sigaction(SIGTERM, &action, nullptr);
  NodeReporter reporter(options.control);
  std::string key;
  Status status = run(options, reporter, key);
  if (!status.ok()) {
    wire::WorkerMessage message;
    message.mutable_failed()->set_code(std::string(to_string(status.error().code())));
    message.mutable_failed()->set_message(status.error().message());
    message.mutable_failed()->set_key(key);
    reporter.report(message);
    return status;
  }
  return std::move(reporter).status();
}

}  // namespace tandem::worker
