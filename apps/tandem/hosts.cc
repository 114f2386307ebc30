#include "hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "background_writer.h"
#include "base/file.h"
#include "cluster/meeting.h"
#include "cluster/run_workers.h"
#include "job_source.h"

namespace tandem::cli {
namespace {

constexpr std::size_t kMostFileBytes = 1 << 20;
constexpr std::int64_t kMostSlots = 1024;
// Ports that Linux gives to nobody by itself; one run of this machine after another takes another.
constexpr int kFirstPort = 20000, kPorts = 12000;

// What a rank's host says first.
constexpr const char* kReached = "tandem-host-reached";

// How long the end waits for a terminal that nobody reads.
constexpr std::chrono::seconds kFarewell{10};

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// The host without the user: where rank 0 listens.
std::string address_of(const Host& host) {
  const std::size_t at = host.name.rfind('@');
  return at == std::string::npos ? host.name : host.name.substr(at + 1);
}

// Passes what ranks say on: the first rank's as if it ran here, the others' with their name.
class Relay : public cluster::WorkerListener {
 public:
  Relay(std::vector<std::string> names, BackgroundWriter& errors)
      : names_(std::move(names)), errors_(errors) {}

  Status message(int, const wire::WorkerMessage&) override { return {}; }
  Status line(int worker, cluster::Stream stream, std::string_view text) override {
    if (stream == cluster::Stream::kOutput) {
      if (worker == 0) print_out(std::string(text) + "\n");
    } else {
      const std::string name = worker == 0 ? "" : names_[static_cast<std::size_t>(worker)] + ": ";
      errors_.write(Weight::kLine, fmt::format("{}{}\n", name, text));
    }
    return {};
  }
  void stopping(cluster::Order, cluster::Cause) override {}
  void resumed() override {}
  void tick() override {}

 private:
  const std::vector<std::string> names_;
  BackgroundWriter& errors_;
};

struct Rank {
  cluster::Command command;
  Descriptor input;     // The end that the rank reads.
  Descriptor lifeline;  // Ours: when it closes, the rank ends.
};

Result<Rank> make_rank(const TrainOptions& options, const Surroundings& around, const Host& host,
                       const std::string& script, const std::string& token) {
  Rank rank;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("create a pipe", errno);
  rank.input = Descriptor(ends[0]);
  rank.lifeline = Descriptor(ends[1]);
  const std::string line = token + "\n";
  if (::write(rank.lifeline.get(), line.data(), line.size()) != std::ssize(line))
    return system_error("write to a pipe", errno);
  rank.command.program = "/bin/sh";
  // The user's ssh may be several words.
  rank.command.arguments = {
      "-c", fmt::format("exec {} {} {}", options.ssh, shell_word(host.name), shell_word(script))};
  rank.command.environment = around.environment;
  rank.command.input = rank.input.get();
  rank.command.first_line = kReached;
  return rank;
}

// Whether an exit code is one of tandem's own, whose reason the rank has told.
bool is_told(const cluster::WorkerEnd& end) {
  constexpr int kLastOfOurs = 10;
  return end.started && !end.exit.by_signal && end.exit.number > 1 &&
         (end.exit.number <= kLastOfOurs || end.exit.number == exit_code(Code::kInternal));
}

// The exit code of all: the first rank's that failed by itself, whose reason was shown. An Error
// for one that could not be started or ended without a word.
Result<int> verdict(std::span<const cluster::WorkerEnd> ends, std::span<const std::string> names) {
  for (const cluster::WorkerEnd& end : ends) {
    if (end.cause == cluster::Cause::kCancelled)
      return Error(Code::kCancelled, "cancelled; the ranks were told to end");
  }
  for (const cluster::WorkerEnd& end : ends) {
    if (is_told(end)) return end.exit.number;
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const cluster::WorkerEnd& end = ends[i];
    if (end.started && end.exit == cluster::Exit{}) continue;
    if (end.cause == cluster::Cause::kStartTimeout) {
      return Error(Code::kTimeout,
                   fmt::format("{} could not be reached in time; does `ssh` get there without a "
                               "question? --start-timeout gives it longer",
                               names[i]));
    }
    const std::string how = end.exit.by_signal ? cluster::signal_name(end.exit.number)
                                               : fmt::format("exit code {}", end.exit.number);
    if (end.started) {
      return Error(Code::kPeerLost,
                   fmt::format("{} ended with {} without a report", names[i], how));
    }
    return Error(Code::kPeerLost,
                 fmt::format("{} could not be started: what --ssh names ended with {}; does `ssh` "
                             "get there without a question, and is the directory there the same?",
                             names[i], how));
  }
  return 0;
}

// What the ranks would refuse is refused before they are started. Where the file cannot be read
// here, the hosts may still have it.
Status check_job(const TrainOptions& options, std::int64_t ranks) {
  std::error_code error;
  if (!std::filesystem::exists(options.job, error)) return {};
  std::vector<std::string> overrides = options.overrides;
  overrides.push_back(fmt::format("cluster.workers={}", ranks));
  TANDEM_ASSIGN(const LoadedJob loaded, load_job(options.job, overrides));
  return cluster::Meeting::check(loaded.parsed.job, collective::JoinOptions{});
}

}  // namespace

Result<std::vector<Host>> parse_hosts(std::string_view text, const std::string& file) {
  std::vector<Host> hosts;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    Host host{std::string(words[0]), 1};
    for (std::size_t i = 1; i < words.size(); ++i) {
      constexpr std::string_view kSlots = "slots=";
      const std::string_view value =
          words[i].starts_with(kSlots) ? words[i].substr(kSlots.size()) : "";
      const auto [stop, error] =
          std::from_chars(value.data(), value.data() + value.size(), host.slots);
      if (error != std::errc() || stop != value.data() + value.size() || host.slots < 1 ||
          host.slots > kMostSlots) {
        return Error(Code::kInvalidArgument,
                     fmt::format("{}:{}: `{}` is not understood; a line is a host and, if it shall "
                                 "have more than one worker, slots=N (up to {})",
                                 file, number, words[i], kMostSlots));
      }
    }
    if (host.name.starts_with("-")) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{}:{}: `{}` is no name of a host", file, number, host.name));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) return Error(Code::kInvalidArgument, fmt::format("{} names no host", file));
  return hosts;
}

std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string remote_script(const TrainOptions& options, const std::vector<Host>& hosts,
                          std::int64_t rank, std::uint16_t port, const std::string& program,
                          const std::string& directory) {
  std::int64_t size = 0;
  for (const Host& host : hosts) size += host.slots;
  std::string command = shell_word(program) + " train " + shell_word(options.job);
  for (const std::string& text : options.overrides) command += " " + shell_word(text);
  if (!options.out.empty()) command += " --out " + shell_word(options.out);
  if (!options.worker_binary.empty())
    command += " --worker-binary " + shell_word(options.worker_binary);
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  command += fmt::format(" --start-timeout {} --timeout {}", seconds(options.limits.start),
                         seconds(options.limits.silence));
  if (options.resume) command += " --resume";
  if (options.dry_run) command += " --dry-run";
  if (options.format == Format::kJson) command += " --json";
  if (options.detail == Detail::kQuiet) command += " --quiet";
  if (options.detail == Detail::kVerbose) command += " --verbose";
  // The shell gives what runs in the background no standard input, hence descriptor 3.
  return fmt::format(
      "read -r TANDEM_TOKEN && export TANDEM_TOKEN && cd {} || exit 1; echo {}; "
      "exec 3<&0; RANK={} WORLD_SIZE={} MASTER_ADDR={} MASTER_PORT={} {} 3<&- & run=$!; "
      "(cat <&3 >/dev/null; kill -TERM $run) 2>/dev/null & watch=$!; "
      "wait $run; code=$?; kill $watch 2>/dev/null; exit $code",
      shell_word(directory), kReached, rank, size, shell_word(address_of(hosts[0])), port, command);
}

Result<int> train_on_hosts(const TrainOptions& options, const Surroundings& around) {
  if (options.job == "-") {
    return Error(Code::kInvalidArgument,
                 "--hosts needs a job file that every host can read, not standard input");
  }
  TANDEM_ASSIGN(const std::string text, read_file(options.hosts, kMostFileBytes));
  TANDEM_ASSIGN(const std::vector<Host> hosts, parse_hosts(text, options.hosts));
  std::int64_t size = 0;
  for (const Host& host : hosts) size += host.slots;
  TANDEM_TRY(check_job(options, size));
  TANDEM_ASSIGN(const std::string token, cluster::random_token());
  const auto port = static_cast<std::uint16_t>(kFirstPort + ::getpid() % kPorts);
  const std::string program = (around.program_directory / "tandem").string();
  const std::string directory = std::filesystem::current_path().string();
  std::vector<Rank> ranks;
  std::vector<std::string> names;
  for (const Host& host : hosts) {
    for (std::int64_t slot = 0; slot < host.slots; ++slot) {
      const auto number = static_cast<std::int64_t>(ranks.size());
      TANDEM_ASSIGN(
          Rank rank,
          make_rank(options, around, host,
                    remote_script(options, hosts, number, port, program, directory), token));
      ranks.push_back(std::move(rank));
      names.push_back(fmt::format("rank {} on {}", number, host.name));
    }
  }
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  std::vector<cluster::Command> commands;
  for (const Rank& rank : ranks) commands.push_back(rank.command);
  BackgroundWriter errors(STDERR_FILENO);
  Relay relay(names, errors);
  // Once it is reached, each rank keeps its own deadlines.
  const cluster::Limits limits{.start = options.limits.start,
                               .silence = std::chrono::hours(24 * 365),
                               .grace = std::chrono::seconds(15),
                               .follow = std::chrono::seconds(15)};
  TANDEM_ASSIGN(const std::vector<cluster::WorkerEnd> ends,
                cluster::run_workers(commands, limits, signals, relay));
  errors.finish(kFarewell);
  return verdict(ends, names);
}

}  // namespace tandem::cli
