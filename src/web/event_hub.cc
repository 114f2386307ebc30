#include "web/event_hub.h"

#include <fmt/format.h>

#include <string_view>

namespace tandem::web {
namespace {

// What one call of next() hands over at most, unless a single event is larger.
constexpr std::size_t kMostBytes = std::size_t{64} << 10;

void append_event(std::string& text, std::uint64_t id, std::string_view json) {
  text += fmt::format("id: {}\n", id);
  // A line break would end the data, so each line gets its own.
  for (;;) {
    const std::size_t end = json.find_first_of("\r\n");
    text += fmt::format("data: {}\n", json.substr(0, end));
    if (end == std::string_view::npos) break;
    json.remove_prefix(end + 1);
  }
  text += "\n";
}

}  // namespace

EventHub::Reader::~Reader() {
  const std::scoped_lock lock(hub_.mutex_);
  --hub_.readers_;
}

EventHub::Next EventHub::Reader::next(std::chrono::steady_clock::time_point deadline,
                                      const std::stop_token& stop) {
  std::unique_lock lock(hub_.mutex_);
  hub_.published_.wait_until(lock, stop, deadline, [&] { return hub_.last_id_ >= next_; });
  if (stop.stop_requested()) return {.outcome = Outcome::kStopped};
  if (hub_.last_id_ < next_) return {.outcome = Outcome::kQuiet};
  const std::uint64_t oldest = hub_.kept_.front().id;
  if (next_ < oldest) return {.outcome = Outcome::kOvertaken};
  Next result{.outcome = Outcome::kEvents};
  for (; next_ <= hub_.last_id_ && result.text.size() < kMostBytes; ++next_)
    append_event(result.text, next_, hub_.kept_[static_cast<std::size_t>(next_ - oldest)].json);
  return result;
}

std::uint64_t EventHub::publish(std::string json) {
  std::uint64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    id = ++last_id_;
    kept_.push_back({.id = id, .json = std::move(json)});
    if (kept_.size() > kKept) kept_.pop_front();
  }
  published_.notify_all();
  return id;
}

std::optional<EventHub::Subscription> EventHub::subscribe(EventsAfter after) {
  const std::scoped_lock lock(mutex_);
  if (readers_ >= kMostReaders) return std::nullopt;
  const std::uint64_t oldest = kept_.empty() ? last_id_ + 1 : kept_.front().id;
  Subscription result;
  std::uint64_t next = last_id_ + 1;
  if (after.id) {
    const bool known = *after.id <= last_id_ && *after.id + 1 >= oldest;
    next = known ? *after.id + 1 : oldest;
    if (!known) result.greeting = fmt::format("event: missed\ndata: {{\"next\": {}}}\n\n", next);
  }
  result.reader = std::make_unique<Reader>(*this, next);
  ++readers_;
  return result;
}

std::size_t EventHub::readers() const {
  const std::scoped_lock lock(mutex_);
  return readers_;
}

}  // namespace tandem::web
