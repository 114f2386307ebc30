// `tandem train --hosts FILE`: starts the ranks of a run over ssh, each as `tandem train` with its
// place in the environment (collective/join.h), and ends them all when one fails or the user asks
// for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "options.h"
#include "surroundings.h"

namespace tandem::cli {

struct Host {
  std::string name;  // As ssh takes it, such as user@node-a.
  std::int64_t slots = 1;

  friend bool operator==(const Host&, const Host&) = default;
};

// A line for each host: its name, and `slots=N` for more ranks than one; # starts a comment.
// kInvalidArgument says which line is wrong.
Result<std::vector<Host>> parse_hosts(std::string_view text, const std::string& file);

// One word for a POSIX shell.
std::string shell_word(std::string_view word);

// What the shell on a host runs for one rank. It reads the token from standard input, so that no
// list of processes shows it, and ends tandem when standard input does.
std::string remote_script(const TrainOptions& options, const std::vector<Host>& hosts,
                          std::int64_t rank, std::uint16_t port, const std::string& program,
                          const std::string& directory);

// Runs the job on the hosts; returns the exit code of the first rank that failed, or 0.
Result<int> train_on_hosts(const TrainOptions& options, const Surroundings& around);

}  // namespace tandem::cli
