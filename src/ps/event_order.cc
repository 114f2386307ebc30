#include "ps/event_order.h"

#include <fmt/format.h>

namespace tandem::ps {

Status EventOrder::keep(const Event& event, std::size_t most) {
  const std::uint64_t number = event.header.sequence;
  if (number <= next_ || early_.size() >= most || early_.contains(number)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("event {} came where {} is due, and {} others wait", number, next_,
                             early_.size()));
  }
  early_.emplace(number, event);
  if (event.header.kind == Kind::kPush) pushes_.emplace(event.peer, event.header.place);
  return {};
}

std::optional<EventOrder::Event> EventOrder::take() {
  const auto found = early_.find(next_);
  if (found == early_.end()) return std::nullopt;
  const Event event = found->second;
  early_.erase(found);
  if (event.header.kind == Kind::kPush) pushes_.erase({event.peer, event.header.place});
  return event;
}

}  // namespace tandem::ps
