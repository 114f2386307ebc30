#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

#include "base/file.h"
#include "commands.h"
#include "job/parse.h"
#include "judge.h"
#include "places.h"
#include "train/trainer.h"
#include "wire/frame.h"

namespace tandem::worker {
namespace {

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

// What a worker does whom somebody else than its node asks to end, or who has lost its node. One
// that was placed leaves its place at once: asked to stop, it would stop the training of all.
enum class Alone : std::uint8_t { kStops, kLeaves };

void leave() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTERM, &action, nullptr);
  ::kill(::getpid(), SIGTERM);
}

// Sends each message to the node. A node that is gone ends the worker: nobody would see what it
// does.
class NodeReporter final : public train::Reporter {
 public:
  NodeReporter(int control, Alone alone) : control_(control), alone_(alone) {}

  void report(const wire::WorkerMessage& message) override {
    if (!status_.ok()) return;
    status_ = wire::send(control_, message);
    if (status_.ok()) return;
    if (alone_ == Alone::kLeaves) leave();
    stop_asked = true;
  }

  // The first failure to send.
  Status status() && { return std::move(status_); }

 private:
  const int control_;
  const Alone alone_;
  Status status_;
};

// Products of matrices in oneDNN keep numbers below the stack pointer, where the kernel would write
// what a handler needs: handlers run on a stack of their own. This thread computes, and it is the
// one that gets the signals of the process.
void handle(int number, struct sigaction action) {
  alignas(64) static std::array<std::byte, 65536> memory;
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  ::sigaltstack(&stack, nullptr);
  action.sa_flags |= SA_ONSTACK;
  ::sigaction(number, &action, nullptr);
}

// From now on SIGTERM asks to stop.
void take_orders() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked = true; };
  handle(SIGTERM, action);
}

// The node's does, nobody else's.
void take_orders_of_node() {
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    if (info->si_pid != ::getppid()) return leave();
    stop_asked = true;
  };
  handle(SIGTERM, action);
}

Status run(const TrainOptions& options, train::Reporter& reporter, std::string& key) {
  const std::filesystem::path path = options.run_directory / "job.toml";
  TANDEM_ASSIGN(const std::string text, read_file(path, job::kMostFileBytes));
  train::TrainRequest request;
  TANDEM_ASSIGN(request.job, job::parse(text, path.string(), {}));
  request.base_directory = options.base_directory;
  request.run_directory = options.run_directory;
  request.store = options.run_directory / "checkpoints";
  request.rehearsal = options.rehearsal;
  // Joining has had its time; the node's limit leaves as much again for loading.
  request.start_patience =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.group.patience_s * 500));
  if (options.placed_by_node) {
    Control control(options.control);
    TANDEM_ASSIGN(auto tls, net::load_tls(options.tls));
    NodePlaces places(control, token(), std::move(tls), stop_asked, take_orders_of_node);
    NodeJudge judge(control, reporter);
    return train::train(request, places, judge, reporter, stop_asked, key);
  }
  // Until the others are there, there is nothing to end in order: SIGTERM simply ends the process.
  TANDEM_ASSIGN(collective::Group group, join_group(options.group));
  take_orders();
  train::OnePlace place({std::move(group), options.resume});
  train::OwnJudge judge(request.job.train, reporter);
  return train::train(request, place, judge, reporter, stop_asked, key);
}

}  // namespace

Status train(const TrainOptions& options) {
  NodeReporter reporter(options.control, options.placed_by_node ? Alone::kLeaves : Alone::kStops);
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
