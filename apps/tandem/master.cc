#include "cluster/master.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/file.h"
#include "cluster/signals.h"
#include "cluster_secret.h"
#include "commands.h"
#include "master_backend.h"
#include "web/client.h"
#include "web/event_hub.h"
#include "web/server.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// One line with the time, from any thread.
void log_line(std::string_view text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  fmt::print(stderr, "{:%H:%M:%S} {}\n", parts, text);
}

// Where to listen. Other than an address to connect to, its port may be 0: any that is free.
Result<web::Endpoint> parse_listen(std::string text) {
  const bool any = text.ends_with(":0");
  if (any) text.back() = '1';
  auto endpoint = web::parse_endpoint(text);
  if (!endpoint.ok()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("`{}` is no address to listen at; write HOST:PORT", text));
  }
  if (any) endpoint->port = 0;
  return endpoint;
}

Status make_secret_file(const MasterOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const fs::path path, secret_path(options.security.secret, around));
  if (path.has_parent_path()) TANDEM_TRY(tandem::create_directories(path.parent_path()));
  TANDEM_ASSIGN(const net::Secret secret, net::make_secret());
  TANDEM_TRY(net::save_secret(path, secret));
  print_out(fmt::format("{}\n", path.string()));
  fmt::print(stderr,
             "The cluster's secret is made. Copy it to the same place on every machine of the "
             "cluster, readable by you alone;\nwhoever has it can run jobs there.\n");
  return {};
}

Status print_token(const MasterOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const fs::path path, secret_path(options.security.secret, around));
  TANDEM_ASSIGN(const net::Secret secret, net::load_secret(path));
  print_out(http_token(secret) + "\n");
  return {};
}

Status serve(const MasterOptions& options, const Surroundings& around) {
  TANDEM_ASSIGN(const web::Endpoint listen, parse_listen(options.listen));
  TANDEM_ASSIGN(const web::Endpoint http, parse_listen(options.http));
  cluster::MasterConfig config;
  TANDEM_ASSIGN(config.security, find_security(options.security, around));
  // Before any thread starts, so that all inherit the mask.
  TANDEM_ASSIGN(cluster::SignalQueue signals, cluster::SignalQueue::create());
  TANDEM_ASSIGN(const auto loop, net::Loop::create());
  web::EventHub events;
  config.listen = {listen.host, static_cast<std::uint16_t>(listen.port)};
  config.worker_limits = options.limits;
  config.runs = fs::absolute(options.runs).lexically_normal();
  config.version = around.version;
  config.log = log_line;
  config.publish = [&events](const nlohmann::json& event) {
    events.publish(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  const std::string token = http_token(config.security.secret);
  TANDEM_ASSIGN(const auto master, cluster::Master::create(*loop, std::move(config)));
  MasterBackend backend(*loop, *master);
  web::ServerConfig server_config;
  server_config.address = http.host;
  server_config.port = http.port;
  server_config.token = token;
  server_config.log = log_line;
  TANDEM_ASSIGN(auto server, web::Server::start(std::move(server_config), backend, events));
  if (token.empty()) {
    log_line(
        "there is no secret, so jobs cannot be submitted; make one with `tandem master "
        "--init` and start again");
  }
  const net::Endpoint http_at{http.host, static_cast<std::uint16_t>(server->port())};
  log_line(fmt::format("nodes connect to {}; HTTP is at {}; jobs are in {}",
                       net::to_string(net::Endpoint{listen.host, master->port()}),
                       net::to_string(http_at),
                       fs::absolute(options.runs).lexically_normal().string()));
  int asked = 0;
  TANDEM_ASSIGN(const net::Watch watch, loop->watch(signals.fd(), [&] {
    while (signals.take()) {
      if (++asked > 1) return loop->stop();
      log_line("ends once the workers have saved their state; the jobs go on with the next master");
      master->shut_down([&] { loop->stop(); });
    }
  }));
  loop->run();
  // Requests under way may wait for the loop.
  std::jthread stopper([&] {
    server.reset();
    loop->post([&] { loop->stop(); });
  });
  loop->run();
  return {};
}

}  // namespace

int master(const MasterOptions& options, const Surroundings& around) {
  const Status status = options.init    ? make_secret_file(options, around)
                        : options.token ? print_token(options, around)
                                        : serve(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
