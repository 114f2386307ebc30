#include "web/connection_table.h"

#include <exception>
#include <system_error>

namespace tandem::web {
namespace {

// Threads of connections that were sent away need a moment to end; so many may be doing so.
constexpr std::size_t kMostEnding = 64;
constexpr std::chrono::milliseconds kEndingPatience{200};

}  // namespace

std::list<ConnectionTable::Entry> ConnectionTable::take_finished() {
  std::list<Entry> taken;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->finished_) taken.splice(taken.end(), entries_, entry);
    entry = next;
  }
  return taken;
}

bool ConnectionTable::make_room(std::unique_lock<std::mutex>& lock) {
  const auto ending = [&] {
    std::size_t count = 0;
    for (const Entry& entry : entries_) count += entry.sent_away_ && !entry.finished_ ? 1 : 0;
    return count;
  };
  finished_.wait_for(lock, kEndingPatience, [&] { return ending() < kMostEnding || stopped_; });
  if (stopped_ || ending() >= kMostEnding) return false;

  std::size_t plain = 0;
  Entry* longest = nullptr;
  for (Entry& entry : entries_) {
    if (entry.finished_ || entry.sent_away_ || entry.state_ == State::kStreaming) continue;
    ++plain;
    const bool movable = entry.state_ == State::kWaiting;
    if (movable && (longest == nullptr || entry.since_ < longest->since_)) longest = &entry;
  }
  if (plain < most_) return true;
  if (longest == nullptr) return false;
  longest->sent_away_ = true;
  longest->connection.shut_down();
  return true;
}

bool ConnectionTable::add(Descriptor& socket, Timeouts timeouts,
                          std::function<void(Entry&)> serve) {
  std::list<Entry> finished;
  bool added = false;
  {
    std::unique_lock lock(mutex_);
    finished = take_finished();
    if (make_room(lock)) {
      Entry& entry = entries_.emplace_back(std::move(socket), timeouts);
      try {
        entry.thread_ = std::thread([this, &entry, serve = std::move(serve)] {
          try {
            serve(entry);
          } catch (const std::exception&) {
            // Out of memory, say. It costs this connection only.
          }
          entry.connection.shut_down();
          const std::scoped_lock inner(mutex_);
          entry.finished_ = true;
          finished_.notify_all();
        });
        added = true;
      } catch (const std::system_error&) {
        entries_.pop_back();
      }
    }
  }
  for (Entry& entry : finished) entry.thread_.join();
  return added;
}

bool ConnectionTable::set_state(Entry& entry, State state) {
  const std::scoped_lock lock(mutex_);
  if (entry.sent_away_ || stopped_) return false;
  entry.state_ = state;
  entry.since_ = std::chrono::steady_clock::now();
  return true;
}

void ConnectionTable::stop() {
  std::list<Entry> entries;
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    for (const Entry& entry : entries_) entry.connection.shut_down();
    finished_.notify_all();
    finished_.wait(lock, [&] {
      for (const Entry& entry : entries_)
        if (!entry.finished_) return false;
      return true;
    });
    entries.splice(entries.end(), entries_);
  }
  for (Entry& entry : entries) entry.thread_.join();
}

}  // namespace tandem::web
