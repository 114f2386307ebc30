// `tandem node`: the agent of a cluster on one machine. It keeps a connection to the master, starts
// and ends workers as the master says, and passes on what they say. When the master is gone for
// longer than allowed, or the agent ends, its workers end too.
//
// Workers are watched on the calling thread; the connection has a thread of its own.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/signals.h"
#include "net/address.h"
#include "net/limits.h"
#include "net/secret.h"

namespace tandem::cluster {

struct AgentConfig {
  net::Endpoint master;
  net::Security security;
  net::Limits limits;
  std::string name;  // Of this machine, for people.
  int slots = 1;     // Workers that may run at once.
  std::filesystem::path worker_program;
  std::vector<std::string> environment;  // Ours; the workers' is made from it.
  std::string version;
  std::chrono::milliseconds master_timeout{10000};  // How long workers outlive the connection.
  std::function<void(std::string_view)> log;        // From any thread.
};

// Returns when a signal asks it to end and all workers are gone. An Error when it cannot begin.
Status run_agent(const AgentConfig& config, SignalQueue& signals);

}  // namespace tandem::cluster
