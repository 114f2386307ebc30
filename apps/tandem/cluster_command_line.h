// The sub-commands of a cluster: master, node, and what users ask a master.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>

#include "base/result.h"
#include "options.h"

namespace tandem::cli {

// What the sub-command that was given becomes.
using Finish = std::map<const CLI::App*, std::function<Result<Options>()>>;

// Their options, while CLI11 fills them. Addresses must not change.
struct ClusterSlots {
  MasterOptions master;
  NodeOptions node;
  ClientOptions client;
  double start_timeout_s = 120, timeout_s = 300;
  bool json = false;
};

void add_secret(CLI::App& command, std::string& target);
void add_tls(CLI::App& command, net::TlsFiles& files);
void add_cluster_commands(CLI::App& app, ClusterSlots& slots, Finish& finish);

}  // namespace tandem::cli
