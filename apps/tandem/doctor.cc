#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "checks.h"
#include "cluster/environment.h"
#include "cluster/run_workers.h"
#include "commands.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;
using Facts = std::map<std::string, std::string>;

// How long another program may take to answer. A cold start of libtorch reads some 400 MB.
constexpr std::chrono::seconds kPatience{60};

// Packages that Tandem runs on, in the order in which they are shown.
constexpr std::string_view kPackages[] = {"libtorch1.13",         "libdnnl2",
                                          "libopenblas0-pthread", "libgomp1",
                                          "libprotobuf-lite32",   "libfmt9"};

class Collector : public cluster::WorkerListener {
 public:
  Status message(int, const wire::WorkerMessage&) override { return {}; }
  Status line(int, cluster::Stream stream, std::string_view text) override {
    (stream == cluster::Stream::kOutput ? output : errors).emplace_back(text);
    return {};
  }
  void stopping(cluster::Order, cluster::Cause) override {}
  void resumed() override {}
  void tick() override {}

  std::vector<std::string> output, errors;
};

struct Answer {
  std::vector<std::string> lines;
  std::string problem;  // Empty when the program ended well.
};

Answer ask(const cluster::Command& command) {
  auto signals = cluster::SignalQueue::create();
  if (!signals.ok()) return {{}, signals.error().message()};
  Collector collector;
  const cluster::Limits limits{
      .start = kPatience, .silence = kPatience, .grace = std::chrono::seconds(1)};
  const auto ends = cluster::run_workers({&command, 1}, limits, *signals, collector);
  if (!ends.ok()) return {{}, ends.error().message()};
  const cluster::WorkerEnd& end = ends->front();
  Answer answer{std::move(collector.output), ""};
  if (end.cause == cluster::Cause::kStartTimeout) {
    answer.problem = fmt::format("no answer within {} s", kPatience.count());
  } else if (end.exit != cluster::Exit{}) {
    answer.problem = end.exit.by_signal ? cluster::signal_name(end.exit.number)
                                        : fmt::format("exit code {}", end.exit.number);
    if (!collector.errors.empty()) answer.problem += ": " + collector.errors.back();
  }
  return answer;
}

// What the worker says about its libraries, from lines that are JSON objects.
Facts parse_facts(const std::vector<std::string>& lines) {
  Facts facts;
  for (const std::string& line : lines) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    for (const auto& [key, value] : json.items()) {
      facts[key] = value.is_string() ? value.get<std::string>()
                                     : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
  return facts;
}

void check_worker(const DoctorOptions& options, const Surroundings& around, const Kernels& kernels,
                  std::vector<Check>& checks) {
  const auto program = around.find_worker(options.worker_binary);
  if (!program.ok()) {
    const std::string& message = program.error().message();
    checks.push_back({"worker", Verdict::kFail, message.substr(0, message.find('\n')),
                      "build or install it, or name its place with --worker-binary; nothing can be "
                      "trained without it"});
    return;
  }
  const Answer answer =
      ask({*program, {"info"}, cluster::worker_environment(around.environment, kernels, 1)});
  if (!answer.problem.empty()) {
    checks.push_back({"worker", Verdict::kFail,
                      fmt::format("{} does not run: {}", program->string(), answer.problem),
                      "install what is missing, or build it again"});
    return;
  }
  const Facts facts = parse_facts(answer.lines);
  std::string versions;
  for (const auto& [name, value] : facts) {
    if (name != "blas" && name != "blas_core")
      versions += fmt::format("{}{} {}", versions.empty() ? "" : ", ", name, value);
  }
  checks.push_back(
      {"worker", Verdict::kOk, fmt::format("{} ({})", program->string(), versions), ""});
  checks.push_back(check_blas(kernels, facts));
}

std::optional<Check> check_packages(const Surroundings& around) {
  const std::filesystem::path program = "/usr/bin/dpkg-query";
  std::error_code error;
  if (!std::filesystem::exists(program, error)) return std::nullopt;
  std::vector<std::string> arguments = {"--show", "--showformat=${Package} ${Version}\\n"};
  arguments.insert(arguments.end(), std::begin(kPackages), std::end(kPackages));
  // It fails when one of them is not installed, and still names the others.
  const Answer answer = ask({program, arguments, around.environment});
  if (answer.lines.empty()) return std::nullopt;
  return Check{"packages", Verdict::kOk, fmt::format("{}", fmt::join(answer.lines, ", ")), ""};
}

void print_text(const std::vector<Check>& checks, bool colour) {
  for (const Check& check : checks) {
    const int code = check.verdict == Verdict::kOk ? 32 : check.verdict == Verdict::kWarn ? 33 : 31;
    const std::string verdict = fmt::format("{:<4}", to_string(check.verdict));
    print_out(fmt::format("{}  {:<14}{}\n",
                          colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, verdict) : verdict,
                          check.name, check.finding));
    if (!check.advice.empty()) print_out(fmt::format("      {:<14}-> {}\n", "", check.advice));
  }
}

void print_json(const std::vector<Check>& checks) {
  Json json = Json::array();
  for (const Check& check : checks) {
    json.push_back({{"name", check.name},
                    {"verdict", to_string(check.verdict)},
                    {"finding", check.finding},
                    {"advice", check.advice}});
  }
  print_out(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

int doctor(const DoctorOptions& options, const Surroundings& around) {
  const Cpu cpu = detect_cpu();
  const Kernels kernels = best_kernels(cpu);
  std::vector<Check> checks = {check_cpu(cpu), check_threads(cpu), check_kernels(kernels)};
  check_worker(options, around, kernels, checks);
  for (Check& check : std::vector<Check>{check_memory(), check_disk(), check_shared_memory(),
                                         check_open_files(), check_loopback()}) {
    checks.push_back(std::move(check));
  }
  if (auto packages = check_packages(around)) checks.push_back(*std::move(packages));
  if (options.format == Format::kJson) {
    print_json(checks);
  } else {
    print_text(checks, around.colour_out);
  }
  const bool failed = std::ranges::any_of(
      checks, [](const Check& check) { return check.verdict == Verdict::kFail; });
  return failed ? 1 : 0;
}

}  // namespace tandem::cli
