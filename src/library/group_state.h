// What a tandem::Group is a handle of, for this folder and its tests.
#pragma once

#include <memory>
#include <vector>

#include "collective/group.h"
#include "library/call_queue.h"
#include "tandem/group.h"

namespace tandem {

struct Group::State {
  State(collective::Group group_of, Options options_of)
      : group(std::move(group_of)), options(std::move(options_of)) {}

  collective::Deadline deadline() const { return collective::deadline_after(options.timeout); }

  collective::Group group;  // Used in `calls`, or while they are held.
  const Options options;
  // Of a group of one, which has no engine to ask.
  std::vector<std::unique_ptr<std::vector<std::byte>>> memory;
  // A group's engine counts the buckets of one reducer only.
  bool has_reducer = false;

  library::CallQueue calls;  // Last: its thread uses all of the above.
};

}  // namespace tandem

namespace tandem::library {

inline Group make_group(collective::Group group, GroupOptions options = {}) {
  return Group(std::make_shared<Group::State>(std::move(group), std::move(options)));
}

}  // namespace tandem::library
