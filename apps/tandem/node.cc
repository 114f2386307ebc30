#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "base/cpu.h"
#include "base/text.h"
#include "cluster/agent.h"
#include "cluster/remote.h"
#include "cluster_secret.h"
#include "commands.h"
#include "web/client.h"

namespace tandem::cli {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

Status serve(const NodeOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const web::Endpoint master, web::parse_endpoint(options.master));
  cluster::AgentConfig config;
  config.master = {master.host, static_cast<std::uint16_t>(master.port)};
  TANDEM_ASSIGN(config.security, find_security(options.security, around));
  config.name = options.name.empty() ? host_name() : options.name;
  if (!cluster::is_node_name(config.name)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("`{}` is no name for a node; give it one of 1 to 64 printable "
                             "characters without spaces, with --name",
                             without_controls(config.name)));
  }
  config.slots = options.slots > 0 ? static_cast<int>(options.slots) : detect_cpu().cores;
  TANDEM_ASSIGN(config.worker_program, around.find_worker(options.worker_binary));
  config.environment = around.environment;
  config.version = around.version;
  config.master_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.master_timeout_s * 1000));
  config.log = [](std::string_view text) { fmt::print(stderr, "node: {}\n", text); };
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  return cluster::run_agent(config, signals);
}

}  // namespace

int node(const NodeOptions& options, const Surroundings& around) {
  const Status status = serve(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
