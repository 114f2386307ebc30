// Reads a stream of events (text/event-stream) from pieces of any size. Belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::web {

struct StreamEvent {
  std::optional<std::uint64_t> id;
  std::string kind = "message";  // Or "missed": events were lost; `data` says which comes next.
  std::string data;
};

class EventParser {
 public:
  // The events that are complete with `piece`.
  std::vector<StreamEvent> feed(std::string_view piece);

 private:
  void take_line(std::string_view line, std::vector<StreamEvent>& done);

  std::string line_;
  StreamEvent event_;
  bool has_data_ = false;
};

}  // namespace tandem::web
