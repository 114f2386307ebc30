// Checks of options, without the text that CLI11 would add to their help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tandem::cli {

// A number, and not NaN.
CLI::Validator within(double least, double most);

// A name, such as that of a file. An empty one comes from a script whose variable is not set.
CLI::Validator not_empty();

// Turns 64KiB into 65536.
CLI::Validator as_bytes();

CLI::Validator one_of(std::vector<std::string> words);

}  // namespace tandem::cli
