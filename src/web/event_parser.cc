#include "web/event_parser.h"

#include <charconv>
#include <utility>

namespace tandem::web {

void EventParser::take_line(std::string_view line, std::vector<StreamEvent>& done) {
  if (line.empty()) {
    if (has_data_) done.push_back(std::move(event_));
    event_ = {};
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (name == "event") {
    event_.kind = value;
  } else if (name == "id") {
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id);
    if (error == std::errc() && end == value.data() + value.size()) event_.id = id;
  }
}

std::vector<StreamEvent> EventParser::feed(std::string_view piece) {
  std::vector<StreamEvent> done;
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    line_ += piece.substr(0, end);
    if (end == std::string_view::npos) break;
    piece.remove_prefix(end + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(std::exchange(line_, {}), done);
  }
  return done;
}

}  // namespace tandem::web
