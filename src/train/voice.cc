#include "train/voice.h"

namespace tandem::train {

void Voice::say(const wire::WorkerMessage& message) {
  if (message.has_progress()) last_progress_ = message;
  reporter_.report(message);
  last_message_ = Clock::now();
}

void Voice::beat() {
  constexpr std::chrono::milliseconds kSilence{500};
  if (Clock::now() - last_message_ < kSilence) return;
  if (last_progress_.has_progress()) return say(last_progress_);
  wire::WorkerMessage message;
  message.mutable_waiting();
  say(message);
}

}  // namespace tandem::train
