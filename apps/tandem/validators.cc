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

CLI::Validator as_bytes() {
  const auto convert = [](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (CLI::AsSizeValue(false)(text).empty()) return "";
    } catch (const CLI::ValidationError&) {
      // Its message lists every unit there is.
    }
    return fmt::format("{} is not a size; write it like 4096, 64KiB or 16MiB", given);
  };
  return CLI::Validator("").operation(convert);
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::IsMember(std::move(words)).description("");
}

}  // namespace tandem::cli
