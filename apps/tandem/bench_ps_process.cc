// The processes between which `bench ps` measures.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <ctime>

#include "bench_ps.h"
#include "ps/server.h"

namespace tandem::cli {
namespace {

using collective::deadline_after;

// Of the run that measures; other users of the machine do not know it.
Result<std::string> token_of(const Surroundings& around) {
  auto token = environment_value(around.environment, "TANDEM_TOKEN");
  if (!token || token->empty())
    return Error(Code::kInvalidArgument, "a process of the measurement was started by hand");
  return *std::move(token);
}

// The text that waits in a pipe.
std::string read_all(int pipe) {
  std::string text(4096, '\0');
  const ssize_t got = ::read(pipe, text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

}  // namespace

Result<BenchProcess> BenchProcess::start(std::string who, std::vector<std::string> arguments,
                                         const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), {"bench", "ps"});
  auto child = cluster::Child::start(
      {.program = "/proc/self/exe", .arguments = std::move(arguments), .environment = environment});
  if (!child.ok()) return std::move(child).error().within("start " + who);
  return BenchProcess(std::move(who), std::move(child).value());
}

Result<std::uint16_t> BenchProcess::port() {
  std::string line;
  const auto deadline = deadline_after(kBenchPsPatience);
  while (!line.ends_with('\n')) {
    pollfd entry{child_.output(), POLLIN, 0};
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Error(Code::kTimeout, who_ + " does not start");
    if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    const std::string more = read_all(child_.output());
    if (more.empty())
      return Error(Code::kPeerLost, fmt::format("{} ended: {}", who_, read_all(child_.errors())));
    line += more;
  }
  std::uint16_t port = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), port).ec != std::errc())
    return Error(Code::kInternal, fmt::format("{} said \"{}\"", who_, line));
  return port;
}

double BenchProcess::cpu_s() const {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(child_.pid(), &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string BenchProcess::complaint() {
  if (!child_.try_wait()) return "";
  return fmt::format("{} ended: {}", who_, read_all(child_.errors()));
}

Status serve_bench(const BenchPsOptions& options, const Surroundings& around) {
  ps::ServerConfig config;
  TANDEM_ASSIGN(config.token, token_of(around));
  TANDEM_ASSIGN(config.tls, net::load_tls(options.tls));
  TANDEM_ASSIGN(const std::unique_ptr<ps::Server> server, ps::Server::create(config));
  print_out(fmt::format("{}\n", server->port()));
  std::fflush(stdout);
  for (;;) server->turn(std::chrono::milliseconds(500));
}

Result<std::unique_ptr<ps::Client>> connect_bench(const BenchPsOptions& options,
                                                  const std::string& token) {
  ps::ClientConfig config;
  for (const std::int64_t port : options.ports)
    config.servers.push_back({"127.0.0.1", static_cast<std::uint16_t>(port)});
  config.token = token;
  TANDEM_ASSIGN(config.tls, net::load_tls(options.tls));
  config.worker = static_cast<int>(options.rank);
  config.name = fmt::format("worker {}", options.rank);
  config.sharing = options.transports[0] == "shm" ? ps::Sharing::kWhereItCan : ps::Sharing::kNever;
  ps::Plan& plan = config.plan;
  plan.generation = 1;
  plan.floats = plan.parameters = static_cast<std::size_t>(options.bytes[0]) / sizeof(float);
  plan.buckets = {{0, plan.floats}, {plan.floats, plan.floats}};
  plan.trainable = {{0, static_cast<std::int64_t>(plan.floats)}};
  plan.lanes = options.workers;
  plan.ends = collective::equal_shares(options.workers, options.workers);
  TANDEM_ASSIGN(std::unique_ptr<ps::Client> client,
                ps::Client::connect(std::move(config), deadline_after(kBenchPsPatience)));
  for (float& value : client->partial(0)) value = 1;
  return client;
}

// Goes along with the worker that measures, step by step, for as long as that one goes on.
Status work_for_bench(const BenchPsOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const std::string token, token_of(around));
  TANDEM_ASSIGN(const std::unique_ptr<ps::Client> client, connect_bench(options, token));
  for (std::int64_t step = 0;; ++step) {
    client->begin(step, kBenchPsRate);
    TANDEM_TRY(client->ready(kBenchPsBuckets));
    TANDEM_TRY(client->finish(deadline_after(2 * kBenchPsPatience)));
  }
}

}  // namespace tandem::cli
