// Checks of options, without the text that CLI11 would add to their help.
#pragma once

#include <CLI/CLI.hpp>

namespace tandem::cli {

// A number, and not NaN.
CLI::Validator within(double least, double most);

// A name, such as that of a file. An empty one comes from a script whose variable is not set.
CLI::Validator not_empty();

}  // namespace tandem::cli
