#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "model/libraries.h"

namespace tandem::worker {

Status info() {
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : model::library_facts()) facts[name] = value;
  std::puts(facts.dump().c_str());
  return {};
}

}  // namespace tandem::worker
