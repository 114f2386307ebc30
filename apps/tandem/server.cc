#include "ps/server.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "commands.h"
#include "wire/frame.h"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& each : environment) {
    if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
  }
  return "";
}

// Serves until the node that started it ends it, or is gone.
Status serve(const ServerOptions& options, const Surroundings& around) {
  constexpr std::chrono::milliseconds kBeat{1000}, kLook{100};
  ps::ServerConfig config;
  config.address = options.address;
  config.token = value_of(around.environment, "TANDEM_TOKEN");
  if (config.token.empty()) {
    return Error(Code::kInvalidArgument,
                 "parameter servers are started by `tandem train`, for a job with "
                 "cluster.strategy = \"ps\"");
  }
  TANDEM_ASSIGN(config.tls, net::load_tls(options.tls));
  config.log = [](const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  };
  TANDEM_ASSIGN(const std::unique_ptr<ps::Server> server, ps::Server::create(config));
  wire::WorkerMessage message;
  message.mutable_serving()->set_port(server->port());
  TANDEM_TRY(wire::send(options.control, message));
  for (Clock::time_point beat = Clock::now() + kBeat;;) {
    server->turn(kLook);
    if (Clock::now() < beat) continue;
    TANDEM_TRY(wire::send(options.control, message));
    beat = Clock::now() + kBeat;
  }
}

}  // namespace

int server(const ServerOptions& options, const Surroundings& around) {
  const Status status = serve(options, around);
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
