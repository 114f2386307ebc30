// What is wrong with a command line that CLI11 refused, in words that say what was meant. Pure
// functions. Used by command_line.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "base/result.h"

namespace tandem::cli {

// Follows the words to the sub-command that they name. An Error for a word that names none.
Result<const CLI::App*> find_command(const CLI::App& app, std::span<const std::string> arguments);

// `command` is the one that the arguments name.
Error explain(const CLI::ParseError& error, const CLI::App& command,
              std::span<const std::string> arguments);

}  // namespace tandem::cli
