// What the program finds around it, read once in main(): its environment, its own place, what its
// standard streams are. Nothing else reads the environment. Plain values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::cli {

struct Surroundings {
  std::vector<std::string> environment;     // NAME=value
  std::filesystem::path program_directory;  // Where this executable lies.
  std::string version;
  bool terminal = false;    // Standard error is a terminal that understands control sequences.
  bool colour = false;      // Standard error may be coloured,
  bool colour_out = false;  // and so may standard output.
  bool utf8 = false;

  // The worker: as named, or tandem-worker beside this program. kNotFound when there is none.
  Result<std::filesystem::path> find_worker(std::string_view named) const;
};

// The value of a variable in a list of NAME=value, if it is there.
std::optional<std::string> environment_value(const std::vector<std::string>& environment,
                                             const std::string& name);

Surroundings look_around(std::string version);

// Columns of the terminal on standard error; 80 when it does not say.
int terminal_width();

// Data for whoever reads standard output. Failures show when main() flushes it.
void print_out(std::string_view text);

// "error: MESSAGE", as a line for standard error.
std::string error_text(const Surroundings& around, const Error& error);

// Prints error_text() on standard error.
void print_error(const Surroundings& around, const Error& error);

// Prints "warning: MESSAGE" on standard error.
void print_warning(const Surroundings& around, std::string_view message);

}  // namespace tandem::cli
