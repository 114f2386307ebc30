// Where each key of a job was given: in the file, on the command line, or nowhere. Plain values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "job/mistake.h"

namespace tandem::job {

// Paths are dotted; an entry of `model.layers` is "model.layers[3]", and a key of it
// "model.layers[3].out".
class Locations {
 public:
  void add(std::string path, Place key, Place value);

  // Whether the key itself was given.
  bool has(std::string_view path) const { return found_.find(path) != found_.end(); }

  // The place of the key's name or value; that of the table around it when the key was not given;
  // nowhere when that was not given either.
  Place key(std::string_view path) const { return nearest_given(path).key; }
  Place value(std::string_view path) const { return nearest_given(path).value; }

 private:
  struct Places {
    Place key;
    Place value;
  };
  Places nearest_given(std::string_view path) const;

  std::map<std::string, Places, std::less<>> found_;
};

}  // namespace tandem::job
