// Processes that measure something and print a line of JSON for each result.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/child.h"
#include "cluster/signals.h"

namespace tandem::cli {

// Runs the commands to their end; the objects that they printed. `who` names one of them in
// messages. kCancelled when the user had enough, kTimeout when that takes longer than `at_most`,
// kPeerLost when one fails; none is left then.
Result<std::vector<nlohmann::ordered_json>> run_bench(std::span<const cluster::Command> commands,
                                                      const std::string& who,
                                                      std::chrono::seconds at_most,
                                                      cluster::SignalQueue& signals);

}  // namespace tandem::cli
