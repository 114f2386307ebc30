#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>

#include "base/rng.h"
#include "base/span_math.h"
#include "bench_process.h"
#include "checkpoint/store.h"
#include "commands.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// Beside the state: headers and manifests.
constexpr std::int64_t kSpareBytes = 4 << 20;
// As a model has: the weights' tensors. An optimizer's arrays are one tensor each.
constexpr std::size_t kWeightTensors = 50;

// What a checkpoint with Adam holds: the weights and two arrays of their size.
struct State {
  std::vector<float> weights, first, second;

  explicit State(std::size_t numbers) : weights(numbers), first(numbers), second(numbers) {
    const Rng rng({1});
    for (std::size_t i = 0; i < numbers; ++i) {
      const std::uint64_t bits = rng.at(i);
      weights[i] = static_cast<float>(bits & 0xffffffU);
      first[i] = static_cast<float>(bits >> 24 & 0xffffffU);
      second[i] = static_cast<float>(bits >> 40);
    }
  }
};

checkpoint::ModelContent weights_of(const State& state) {
  checkpoint::ModelContent content;
  const std::span<const float> all(state.weights);
  for (std::size_t i = 0; i < kWeightTensors; ++i) {
    const std::size_t begin = all.size() * i / kWeightTensors;
    const std::span<const float> values =
        all.subspan(begin, all.size() * (i + 1) / kWeightTensors - begin);
    content.parameters.push_back({fmt::format("w{}", i), {std::ssize(values)}, values});
  }
  return content;
}

checkpoint::ModelContent training_of(const State& state) {
  const std::int64_t size = std::ssize(state.first);
  return {{{"optimizer.first", {size}, state.first}, {"optimizer.second", {size}, state.second}},
          {},
          {}};
}

// The copy that training waits for: that of train::capture().
void keep(const State& state, State& kept) {
  copy(state.weights, kept.weights);
  copy(state.first, kept.first);
  copy(state.second, kept.second);
}

void keep_plainly(const State& state, State& kept) {
  const std::size_t bytes = state.weights.size() * sizeof(float);
  std::memcpy(kept.weights.data(), state.weights.data(), bytes);
  std::memcpy(kept.first.data(), state.first.data(), bytes);
  std::memcpy(kept.second.data(), state.second.data(), bytes);
}

// Runs dd, found by PATH.
Status write_zeros(const fs::path& path, std::int64_t bytes, const Surroundings& around) {
  std::vector<std::string> words = {
      "dd",         "if=/dev/zero",      fmt::format("of={}", path.string()),
      "bs=4M",      "iflag=count_bytes", fmt::format("count={}", bytes),
      "conv=fsync", "status=none"};
  std::vector<std::string> variables = around.environment;
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  };
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, "dd", nullptr, nullptr, pointers(words).data(),
                                   pointers(variables).data());
  if (error != 0) return system_error("start dd", error);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return system_error("wait for dd", errno);
  }
  if (status != 0) return Error(Code::kInternal, "dd failed");
  return {};
}

// What one measurement leaves to do must not slow down the next.
void settle(const fs::path& directory) {
  const Descriptor handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.is_open()) ::syncfs(handle.get());
}

struct Seconds {
  double best = std::numeric_limits<double>::infinity();

  void since(Clock::time_point begin) {
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
};

// Measures everything in turn, so that all see the same moods of the machine.
Result<Json> measure(const BenchCheckpointOptions& options, const Surroundings& around) {
  const fs::path directory = options.measure_in;
  const State state(static_cast<std::size_t>(options.bytes) / (3 * sizeof(float)));
  State kept = state;
  const checkpoint::ModelContent weights = weights_of(kept), training = training_of(kept);
  Seconds stop, plain, write, dd;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    // In turn the first: the second finds the caches as the first has left them.
    for (const bool plainly : {round % 2 == 0, round % 2 != 0}) {
      const Clock::time_point begin = Clock::now();
      (plainly ? keep_plainly : keep)(state, kept);
      (plainly ? plain : stop).since(begin);
    }

    settle(directory);
    Clock::time_point begin = Clock::now();
    TANDEM_TRY(checkpoint::write_checkpoint(directory, round, weights, training));
    write.since(begin);
    TANDEM_ASSIGN(const std::vector<checkpoint::Stored> stored,
                  checkpoint::list_checkpoints(directory));
    for (const checkpoint::Stored& each : stored) TANDEM_TRY(checkpoint::remove_checkpoint(each));

    settle(directory);
    begin = Clock::now();
    TANDEM_TRY(write_zeros(directory / "zeros", options.bytes, around));
    dd.since(begin);
    ::unlink((directory / "zeros").c_str());
  }
  const double megabytes = static_cast<double>(options.bytes) / 1e6;
  return Json{{"bytes", options.bytes},
              {"rounds", options.rounds},
              {"stop_ms", stop.best * 1e3},
              {"memcpy_ms", plain.best * 1e3},
              {"stop_ratio", stop.best / plain.best},
              {"write_mb_s", megabytes / write.best},
              {"dd_mb_s", megabytes / dd.best},
              {"write_ratio", dd.best / write.best}};
}

Status measure_here(const BenchCheckpointOptions& options, const Surroundings& around) {
  try {
    TANDEM_ASSIGN(const Json result, measure(options, around));
    print_out(result.dump() + "\n");
    return {};
  } catch (const std::bad_alloc&) {
    return Error(Code::kOutOfSpace, fmt::format("two copies of {} bytes do not fit into memory; "
                                                "give less with --bytes",
                                                options.bytes));
  }
}

// A new directory in another, which is gone with what is in it when this is.
class Scratch {
 public:
  static Result<Scratch> create(const fs::path& in) {
    std::string pattern = (in / ".tandem-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return system_error(fmt::format("create a directory in {}", in.string()), errno);
    return Scratch(pattern);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, fs::path())) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

Status check_space(const BenchCheckpointOptions& options) {
  struct statvfs info {};
  if (::statvfs(options.directory.c_str(), &info) != 0)
    return system_error(fmt::format("look into {}", options.directory), errno);
  const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  const auto needed = static_cast<std::uint64_t>(options.bytes + kSpareBytes);
  if (free >= needed) return {};
  return Error(Code::kOutOfSpace,
               fmt::format("{} has {:.0f} MB free, and {:.0f} MB are needed; name another with "
                           "--directory, or give less with --bytes",
                           options.directory, static_cast<double>(free) / 1e6,
                           static_cast<double>(needed) / 1e6));
}

void show(const Json& result) {
  const auto number = [&](const char* name) { return result.value(name, 0.0); };
  print_out(fmt::format(
      "{:<22} {:>12} {:>12} {:>7}   aim\n"
      "{:<22} {:>9.1f} ms {:>9.1f} ms {:>7.2f}   memcpy's time, about 1\n"
      "{:<22} {:>7.0f} MB/s {:>7.0f} MB/s {:>7.2f}   at least 0.80 of dd\n",
      fmt::format("{:.0f} MB, best of {}", number("bytes") / 1e6, result.value("rounds", 0)),
      "Tandem", "plain", "ratio", "training stops for", number("stop_ms"), number("memcpy_ms"),
      number("stop_ratio"), "written and synced at", number("write_mb_s"), number("dd_mb_s"),
      number("write_ratio")));
}

// Enough for a disk that writes 10 MB/s.
std::chrono::seconds patience(const BenchCheckpointOptions& options) {
  const double bytes =
      2.0 * static_cast<double>(options.bytes) * static_cast<double>(options.rounds);
  return std::chrono::seconds(600 + static_cast<std::int64_t>(bytes / 10e6));
}

// In a process of its own, so that Ctrl-C need not wait for what cannot be interrupted.
Status run(const BenchCheckpointOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  TANDEM_TRY(check_space(options));
  TANDEM_ASSIGN(const Scratch scratch, Scratch::create(options.directory));
  const cluster::Command command = {
      .program = "/proc/self/exe",
      .arguments = {"bench", "checkpoint", "--bytes", std::to_string(options.bytes), "--rounds",
                    std::to_string(options.rounds), "--measure-in", scratch.path().string()},
      .environment = around.environment};
  TANDEM_ASSIGN(std::vector<Json> rows,
                run_bench({&command, 1}, "the measurement", patience(options), signals));
  if (rows.size() != 1) return Error(Code::kInternal, "the measurement gave no result");
  if (options.format == Format::kJson) {
    print_out(rows[0].dump(2) + "\n");
  } else {
    show(rows[0]);
  }
  return {};
}

}  // namespace

int bench_checkpoint(const BenchCheckpointOptions& options, const Surroundings& around) {
  const Status status =
      options.measure_in.empty() ? run(options, around) : measure_here(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
