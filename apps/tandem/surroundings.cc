#include "surroundings.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace tandem::cli {

std::optional<std::string> environment_value(const std::vector<std::string>& environment,
                                             const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

Surroundings look_around(std::string version) {
  Surroundings around;
  around.version = std::move(version);
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry)
    around.environment.emplace_back(*entry);
  std::error_code error;
  around.program_directory = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();

  const char* kind = std::getenv("TERM");
  const bool able = kind != nullptr && std::string_view(kind) != "dumb";
  around.terminal = able && ::isatty(STDERR_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const bool wanted = no_colour == nullptr || *no_colour == '\0';
  around.colour = around.terminal && wanted;
  around.colour_out = able && wanted && ::isatty(STDOUT_FILENO) == 1;
  // Only the character set: numbers are written and read the same everywhere.
  std::setlocale(LC_CTYPE, "");
  around.utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  return around;
}

Result<std::filesystem::path> Surroundings::find_worker(std::string_view named) const {
  const std::filesystem::path path =
      named.empty() ? program_directory / "tandem-worker" : std::filesystem::path(named);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return path;
  return Error(
      Code::kNotFound,
      fmt::format(
          "there is no worker program at {}\n"
          "It is built and installed together with `tandem`; --worker-binary names another place",
          path.string()));
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void print_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string error_text(const Surroundings& around, const Error& error) {
  const std::string_view label = around.colour ? "\x1b[1;31merror:\x1b[0m" : "error:";
  // Messages quote what files hold.
  return fmt::format("{} {}\n", label, without_controls(error.message(), "\n\t"));
}

void print_error(const Surroundings& around, const Error& error) {
  fmt::print(stderr, "{}", error_text(around, error));
}

void print_warning(const Surroundings& around, std::string_view message) {
  const std::string_view label = around.colour ? "\x1b[1;33mwarning:\x1b[0m" : "warning:";
  fmt::print(stderr, "{} {}\n", label, without_controls(message, "\n\t"));
}

}  // namespace tandem::cli
