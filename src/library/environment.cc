#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "collective/join.h"
#include "library/failure.h"
#include "library/group_state.h"
#include "tandem/group.h"

namespace tandem {
namespace {

using library::demand;
using library::refuse;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

Group Group::from_environment(const Options& options) {
  constexpr std::array<std::string_view, 4> kEngines = {"auto", "shm", "gloo", "mpi"};
  if (std::find(kEngines.begin(), kEngines.end(), options.engine) == kEngines.end()) {
    refuse(fmt::format("there is no engine `{}`; there are {}", options.engine,
                       fmt::join(kEngines, ", ")));
  }
  std::optional<collective::JoinOptions> join = demand(collective::join_options_from(variable));
  if (!join) return library::make_group(collective::Group(), options);
  if (options.engine != "auto") join->engine = options.engine;
  join->patience = options.timeout;
  return library::make_group(demand(collective::join(*join)), options);
}

}  // namespace tandem
