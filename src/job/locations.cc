#include "job/locations.h"

#include <utility>

namespace tandem::job {

void Locations::add(std::string path, Place key, Place value) {
  found_.insert_or_assign(std::move(path), Places{key, value});
}

Locations::Places Locations::nearest_given(std::string_view path) const {
  if (const auto exact = found_.find(path); exact != found_.end()) return exact->second;
  while (!path.empty()) {
    const std::size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
    // The table's name stands for whatever is missing inside it.
    if (const auto table = found_.find(path); table != found_.end())
      return {table->second.key, table->second.key};
  }
  return {};
}

}  // namespace tandem::job
