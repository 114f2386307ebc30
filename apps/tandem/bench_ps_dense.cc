// Times of dense pushes and pulls between processes, in turn with an echo and a memcpy.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <memory>
#include <new>

#include "base/memory.h"
#include "base/text.h"
#include "bench_ps.h"
#include "checks.h"
#include "cluster/meeting.h"
#include "cluster/worker_command.h"
#include "counted.h"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using collective::deadline_after;

constexpr int kRounds = 7;
// Of one of the things that are measured.
constexpr double kRoundS = 0.04;
constexpr double kLeastCalls = 3, kMostCalls = 2000;
// Before those that count: processes that slept have to wake up.
constexpr int kWarmUp = 3;

double own_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A call that is timed again and again.
class Timed {
 public:
  using Call = std::function<Status()>;
  // `before` is not timed.
  Timed(Call call, Call before) : call_(std::move(call)), before_(std::move(before)) {}

  // About kRoundS of it.
  Status round() {
    TANDEM_TRY(repeat(kWarmUp));
    const double each = times_.back();
    times_.clear();
    TANDEM_TRY(repeat(static_cast<int>(std::clamp(kRoundS / each, kLeastCalls, kMostCalls))));
    std::sort(times_.begin(), times_.end());
    best_s_ = std::min(best_s_, times_[times_.size() / 2]);
    all_.insert(all_.end(), times_.begin(), times_.end());
    times_.clear();
    return {};
  }

  // The median of the best round.
  double best_s() const { return best_s_; }
  double p99_s() {
    std::sort(all_.begin(), all_.end());
    return all_[(all_.size() - 1) * 99 / 100];
  }
  // All calls, also those that warm up, and what this process used for them.
  std::int64_t calls() const { return calls_; }
  double cpu_s() const { return cpu_s_; }

 private:
  Status repeat(int times) {
    for (int i = 0; i < times; ++i) {
      TANDEM_TRY(before_());
      const double cpu = own_cpu_s();
      const Clock::time_point begin = Clock::now();
      TANDEM_TRY(call_());
      times_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      cpu_s_ += own_cpu_s() - cpu;
      ++calls_;
    }
    return {};
  }

  const Call call_, before_;
  std::vector<double> times_, all_;
  double best_s_ = std::numeric_limits<double>::infinity();
  std::int64_t calls_ = 0;
  double cpu_s_ = 0;
};

// What a worker's backward leaves: the memory's lines are changed, and in this core's cache.
void touch(std::span<float> floats) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < floats.size(); i += kLine)
    static_cast<volatile float&>(floats[i]) = 1;
}

// Servers, workers and an echo, for one transport and size.
class Bench {
 public:
  Bench(const BenchPsOptions& options, const Surroundings& around, const std::string& transport,
        std::int64_t bytes)
      : options_(options), environment_(around.environment) {
    options_.transports = {transport};
    options_.bytes = {bytes};
    options_.ports.clear();
  }

  Status start() {
    TANDEM_ASSIGN(token_, cluster::random_token());
    environment_.push_back("TANDEM_TOKEN=" + token_);
    for (std::int64_t i = 0; i < options_.servers; ++i) {
      TANDEM_ASSIGN(BenchProcess server,
                    BenchProcess::start(fmt::format("server {}", i), with_tls({"--role", "server"}),
                                        environment_));
      others_.push_back(std::move(server));
    }
    for (BenchProcess& server : others_) {
      TANDEM_ASSIGN(const std::uint16_t port, server.port());
      options_.ports.push_back(port);
    }
    TANDEM_ASSIGN(client_, connect_bench(options_, token_));
    TANDEM_ASSIGN(echo_, start_echo(Echo::kPlain));
    TANDEM_ASSIGN(streamed_, start_echo(Echo::kStreamed));
    if (options_.transports[0] == "shm" && !client_->shares_memory())
      return Error(Code::kInternal, "the servers do not share memory with their worker");
    std::vector<float> zeros(client_->partial(0).size());
    TANDEM_TRY(client_->load(0, {zeros}, deadline_after(kBenchPsPatience)));
    return start_workers();
  }

  Result<Json> measure() {
    const std::span<float> gradients = client_->partial(0);
    const auto out = std::as_bytes(gradients);
    std::vector<std::byte> in(out.size());
    const auto prepare = [&]() -> Status {
      touch(gradients);
      return {};
    };
    Timed push_pull([&] { return step(); }, prepare);
    Timed echo([&] { return echo_->exchange(out, in); }, prepare);
    Timed streamed([&] { return streamed_->exchange(out, in); }, prepare);
    Timed copy(
        [&]() -> Status {
          std::memcpy(in.data(), out.data(), out.size());
          return {};
        },
        prepare);
    double others_cpu_s = 0;
    // In turn, so that all see the same moods of the machine.
    for (int round = 0; round < kRounds; ++round) {
      const double before = cpu_of_others();
      TANDEM_TRY(push_pull.round());
      others_cpu_s += cpu_of_others() - before;
      TANDEM_TRY(echo.round());
      TANDEM_TRY(streamed.round());
      TANDEM_TRY(copy.round());
    }
    TANDEM_TRY(check());
    const double bytes = 2 * static_cast<double>(out.size());
    const double moved =
        bytes * static_cast<double>(options_.workers) * static_cast<double>(push_pull.calls());
    return Json{{"transport", options_.transports[0]},
                {"bytes", options_.bytes[0]},
                {"workers", options_.workers},
                {"servers", options_.servers},
                {"rounds", kRounds},
                {"microseconds", push_pull.best_s() * 1e6},
                {"p99_microseconds", push_pull.p99_s() * 1e6},
                {"gb_s", bytes / push_pull.best_s() / 1e9},
                {"cpu_s_per_gb", (push_pull.cpu_s() + others_cpu_s) / (moved / 1e9)},
                {"echo_microseconds", echo.best_s() * 1e6},
                {"streamed_echo_microseconds", streamed.best_s() * 1e6},
                {"memcpy_microseconds", copy.best_s() * 1e6},
                {"echo_speedup", echo.best_s() / push_pull.best_s()},
                {"streamed_echo_speedup", streamed.best_s() / push_pull.best_s()},
                {"memcpy_ratio", push_pull.best_s() / copy.best_s()}};
  }

 private:
  std::vector<std::string> with_tls(std::vector<std::string> arguments) const {
    const std::vector<std::string> tls = cluster::tls_arguments(options_.tls);
    arguments.insert(arguments.end(), tls.begin(), tls.end());
    return arguments;
  }

  // Of as many bytes as are pushed: whole floats.
  Result<std::unique_ptr<EchoClient>> start_echo(Echo kind) {
    TANDEM_ASSIGN(BenchProcess process,
                  BenchProcess::start("an echo",
                                      {"--role", "echo", "--bytes",
                                       std::to_string(client_->partial(0).size_bytes())},
                                      environment_));
    TANDEM_ASSIGN(const std::uint16_t port, process.port());
    TANDEM_ASSIGN(EchoClient client, EchoClient::connect(port, kind));
    echoes_.push_back(std::move(process));
    return std::make_unique<EchoClient>(std::move(client));
  }

  // Once there is a state that they can push to.
  Status start_workers() {
    std::string ports;
    for (const std::int64_t port : options_.ports)
      ports += (ports.empty() ? "" : ",") + std::to_string(port);
    for (std::int64_t rank = 1; rank < options_.workers; ++rank) {
      TANDEM_ASSIGN(
          BenchProcess worker,
          BenchProcess::start(
              fmt::format("worker {}", rank),
              with_tls({"--role", "worker", "--rank", std::to_string(rank), "--ports", ports,
                        "--workers", std::to_string(options_.workers), "--transport",
                        options_.transports[0], "--bytes", std::to_string(options_.bytes[0])}),
              environment_));
      others_.push_back(std::move(worker));
    }
    return {};
  }

  Status step() {
    client_->begin(steps_, kBenchPsRate);
    TANDEM_TRY(client_->ready(kBenchPsBuckets));
    if (Status status = client_->finish(deadline_after(kBenchPsPatience)); !status.ok()) {
      std::string why;
      for (BenchProcess& other : others_) why += other.complaint();
      return why.empty() ? std::move(status) : Status(Error(Code::kPeerLost, why));
    }
    ++steps_;
    return {};
  }

  // What was measured was also right.
  Status check() const {
    const auto expected = static_cast<float>(-kBenchPsRate * static_cast<double>(steps_) *
                                             static_cast<double>(options_.workers));
    const std::size_t floats = static_cast<std::size_t>(options_.bytes[0]) / sizeof(float);
    for (std::size_t at = 0; at < floats;) {
      const std::span<const float> some = client_->result({at, floats});
      for (const float value : some) {
        if (value != expected)
          return Error(Code::kInternal, fmt::format("a parameter is {} instead of {} after {}",
                                                    value, expected, counted(steps_, "step")));
      }
      at += some.size();
    }
    return {};
  }

  double cpu_of_others() const {
    double sum = 0;
    for (const BenchProcess& other : others_) sum += other.cpu_s();
    return sum;
  }

  BenchPsOptions options_;
  std::vector<std::string> environment_;
  std::string token_;
  std::vector<BenchProcess> others_;  // Servers, then workers.
  std::vector<BenchProcess> echoes_;
  std::unique_ptr<EchoClient> echo_, streamed_;
  std::unique_ptr<ps::Client> client_;
  std::int64_t steps_ = 0;
};

}  // namespace

// A kernel that promises more memory than there is would kill the process, or another one.
Status check_dense_room(const BenchPsOptions& options) {
  const auto available = available_memory();
  const std::int64_t most = *std::max_element(options.bytes.begin(), options.bytes.end());
  // Of each worker what it pushes, and both ends of what it receives; of the servers two states;
  // of the measurement what is copied, echoed and kept by an echo.
  const double needed = static_cast<double>(most) * (3 * static_cast<double>(options.workers) + 5);
  if (!available || needed <= static_cast<double>(*available)) return {};
  return Error(
      Code::kOutOfSpace,
      fmt::format("{} of {} need about {} of memory, and {} are free; give less with "
                  "--bytes or --workers",
                  counted(options.workers, "worker"), human_bytes(static_cast<std::uint64_t>(most)),
                  human_bytes(static_cast<std::uint64_t>(needed)), human_bytes(*available)));
}

Status measure_dense(const BenchPsOptions& options, const Surroundings& around) try {
  for (const std::string& transport : options.transports) {
    for (const std::int64_t bytes : options.bytes) {
      Bench bench(options, around, transport, bytes);
      TANDEM_TRY(bench.start());
      TANDEM_ASSIGN(const Json row, bench.measure());
      print_out(row.dump() + "\n");
      std::fflush(stdout);
    }
  }
  return {};
} catch (const std::bad_alloc&) {
  return Error(Code::kOutOfSpace, "the floats do not fit into memory; give less with --bytes");
}

std::string dense_text(const std::vector<Json>& rows) {
  std::string text = fmt::format(
      "{}, {}; microseconds of a push and pull with sgd, of echoes over TCP (all there, then all "
      "back; both at\n"
      "once), and of memcpy\n"
      "{:9} {:>11} {:>11} {:>11} {:>8} {:>8} {:>11} {:>11} {:>11} {:>7} {:>10} {:>8}\n",
      counted(rows.empty() ? 0 : rows[0].value("workers", std::int64_t{0}), "worker"),
      counted(rows.empty() ? 0 : rows[0].value("servers", std::int64_t{0}), "server"), "transport",
      "bytes", "push-pull", "p99", "GB/s", "CPU s/GB", "echo", "streamed", "memcpy", "x echo",
      "x streamed", "/ memcpy");
  for (const Json& row : rows) {
    const auto number = [&](const char* name) { return row.value(name, 0.0); };
    text += fmt::format(
        "{:9} {:>11} {:>11.2f} {:>11.2f} {:>8.3f} {:>8.3f} {:>11.2f} {:>11.2f} {:>11.2f} "
        "{:>7.2f} {:>10.2f} {:>8.2f}\n",
        row.value("transport", ""), row.value("bytes", std::int64_t{0}), number("microseconds"),
        number("p99_microseconds"), number("gb_s"), number("cpu_s_per_gb"),
        number("echo_microseconds"), number("streamed_echo_microseconds"),
        number("memcpy_microseconds"), number("echo_speedup"), number("streamed_echo_speedup"),
        number("memcpy_ratio"));
  }
  return text;
}

}  // namespace tandem::cli
