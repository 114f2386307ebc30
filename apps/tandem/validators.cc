#include "validators.h"

#include <fmt/format.h>

namespace tandem::cli {

CLI::Validator within(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    // Written so that NaN fails.
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? std::string() : fmt::format("{} is not between {} and {}", text, least, most);
  };
  return CLI::Validator(check, "");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? "must not be empty" : std::string(); },
      "");
}

}  // namespace tandem::cli
