#include "cluster/worker_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/environment.h"

namespace tandem::cluster {

std::vector<std::string> tls_arguments(const net::TlsFiles& files) {
  if (files.cert_file.empty()) return {};
  return {"--tls-cert", files.cert_file.string(), "--tls-key", files.key_file.string(),
          "--tls-ca",   files.ca_file.string()};
}

Command worker_command(const RunRequest& request, const RunDirectory& directory) {
  Command command;
  command.program = request.worker_program;
  command.arguments = {"train",
                       "--run",
                       directory.path().string(),
                       "--control",
                       std::to_string(kControlDescriptor),
                       "--base-directory",
                       request.base_directory.string()};
  // Shorter than what the node allows, so that the worker can still say who did not come.
  const auto join = std::chrono::duration<double>(request.limits.start) * 0.6;
  command.arguments.insert(command.arguments.end(),
                           {"--join-timeout", fmt::format("{:.3f}", join.count())});
  const std::vector<std::string> tls = tls_arguments(request.tls);
  command.arguments.insert(command.arguments.end(), tls.begin(), tls.end());
  if (request.rehearsal == Rehearsal::kDryRun) command.arguments.emplace_back("--dry-run");
  command.environment =
      worker_environment(request.environment, request.kernels, request.parsed.job.train.threads);
  return command;
}

Command server_command(const RunRequest& request, const std::string& address) {
  Command command;
  // By its name where it still has one: so people find it among the processes.
  std::error_code error;
  const auto named = std::filesystem::read_symlink(request.server_program, error);
  command.program =
      !error && std::filesystem::exists(named, error) ? named : request.server_program;
  command.arguments = {"server", "--control", std::to_string(kControlDescriptor), "--address",
                       address};
  const std::vector<std::string> tls = tls_arguments(request.tls);
  command.arguments.insert(command.arguments.end(), tls.begin(), tls.end());
  command.environment = request.environment;
  return command;
}

Limits server_limits(const RunRequest& request) {
  constexpr std::chrono::seconds kSilence{15}, kStart{30};
  Limits limits = request.limits;
  limits.start = std::min<std::chrono::milliseconds>(limits.start, kStart);
  limits.silence = std::min<std::chrono::milliseconds>(limits.silence, kSilence);
  return limits;
}

Limits limits_of(const RunRequest& request) {
  constexpr std::chrono::seconds kWords{5};
  Limits limits = request.limits;
  const job::Cluster& cluster = request.parsed.job.cluster;
  const std::chrono::duration<double> patience(cluster.timeout_s);
  if (cluster.workers > 1) {
    limits.silence = std::max(
        limits.silence, std::chrono::duration_cast<std::chrono::milliseconds>(patience) + kWords);
  }
  return limits;
}

}  // namespace tandem::cluster
