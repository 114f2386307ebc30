#include "background_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

namespace tandem::cli {
namespace {

// False when the descriptor is of no more use. Waits for the reader as long as that takes.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Somebody else made it non-blocking.
      pollfd entry{fd, POLLOUT, 0};
      ::poll(&entry, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct BackgroundWriter::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  // All guarded by mutex.
  std::string waiting;
  std::size_t writing_bytes = 0;  // Taken out of `waiting`, not yet known to be out.
  bool closing = false;
  bool broken = false;

  bool idle() const { return waiting.empty() && writing_bytes == 0; }
};

BackgroundWriter::BackgroundWriter(int fd)
    : shared_(std::make_shared<Shared>()), thread_(run, shared_, fd) {}

BackgroundWriter::~BackgroundWriter() {
  bool idle;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
    idle = shared_->idle();
  }
  shared_->changed.notify_all();
  // A thread that is stuck in a write can only be left alone; it ends with the process.
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

bool BackgroundWriter::write(Weight weight, std::string_view text) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->broken) return true;
    if (weight == Weight::kFrame && !shared_->idle()) return false;
    const std::size_t waiting_bytes = shared_->waiting.size() + shared_->writing_bytes;
    if (weight == Weight::kLine && waiting_bytes + text.size() > kMostWaitingBytes) return false;
    shared_->waiting += text;
  }
  shared_->changed.notify_all();
  return true;
}

bool BackgroundWriter::finish(std::chrono::milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, patience, [this] { return shared_->idle(); });
}

void BackgroundWriter::run(const std::shared_ptr<Shared>& shared, int fd) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->closing || !shared->waiting.empty(); });
    if (shared->closing) return;
    const std::string text = std::exchange(shared->waiting, {});
    shared->writing_bytes = text.size();
    lock.unlock();
    const bool written = write_all(fd, text);
    lock.lock();
    shared->writing_bytes = 0;
    if (!written) {
      shared->broken = true;
      shared->waiting.clear();
    }
    shared->changed.notify_all();
  }
}

}  // namespace tandem::cli
